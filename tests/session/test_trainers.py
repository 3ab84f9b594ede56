"""Scripts of `accelerate`, `transformers` and Lightning, where these are installed, on workers on the CPU."""

from __future__ import annotations

import pytest

from tests.conftest import DEADLINE_S

DATA = """
import torch
torch.manual_seed(0)
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 32
    def __getitem__(self, i):
        x = torch.randint(0, 50, (8,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": x, "labels": x}
"""
TRAINER = """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=8, n_embd=16, n_layer=1, n_head=2))
args = TrainingArguments(
    output_dir=folder, per_device_train_batch_size=4, max_steps=4, logging_steps=2, use_cpu=True,
    report_to=[], save_strategy="no", disable_tqdm=True, ddp_backend="gloo",
)
trainer = Trainer(model, args, train_dataset=Numbers())
told = trainer.train().training_loss, args.process_index, args.world_size, trainer.state.global_step
weights = [p.detach() for p in model.parameters()]
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Numbers(), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
batches = 0
for batch in loader:
    loss = model(batch["input_ids"].float()).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    batches += 1
told = accelerator.process_index, accelerator.num_processes, batches
weights = [p.detach() for p in model.parameters()]
"""
LIGHTNING = """
import lightning
from lightning.pytorch.utilities import rank_zero_only
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        loss = self.layer(batch["input_ids"].float()).square().mean()
        self.log("loss", loss, sync_dist=True)
        return loss
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 1e-3)
model = Model()
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_progress_bar=False,
    enable_checkpointing=False, enable_model_summary=False,
)
trainer.fit(model, torch.utils.data.DataLoader(Numbers(), batch_size=4))
told = trainer.global_rank, trainer.world_size, trainer.global_step, rank_zero_only(lambda: "first")()
weights = [p.detach() for p in model.parameters()]
"""


@pytest.fixture
def train(session, tmp_path, monkeypatch):
    """Executes a program on two workers, each with its own of some packages; the session."""

    def run(source, *packages):
        for package in packages:
            pytest.importorskip(package)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")  # else accelerate tells of it
        program = tmp_path / "train.py"
        program.write_text(DATA + source)
        s = session(2, own_modules=packages)
        s.run(f"folder = {str(tmp_path)!r}")
        s.run_file(program, timeout=2 * DEADLINE_S)
        s.run("worker.check(weights)")
        return s

    return run


@pytest.mark.filterwarnings("ignore")
def test_the_trainer_of_transformers_trains_replicas(train):
    # Both import it at once, and with it define operators: "Library object has been destroyed".
    s = train(TRAINER, "accelerate", "transformers")
    (loss, *first), (same, *second) = s.run("told").values
    assert (first, second) == ([0, 2, 4], [1, 2, 4])
    assert loss == same > 0


@pytest.mark.filterwarnings("ignore")
def test_accelerate_trains_replicas_and_gives_each_its_part_of_the_data(train):
    assert train(ACCELERATE, "accelerate").run("told").values == [(0, 2, 4), (1, 2, 4)]


@pytest.mark.filterwarnings("ignore")
def test_the_trainer_of_lightning_trains_replicas_and_knows_who_is_the_first(train):
    told = train(LIGHTNING, "lightning", "lightning_utilities").run("told").values
    assert told == [(0, 2, 4, "first"), (1, 2, 4, None)]
