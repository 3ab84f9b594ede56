"""What is inspected, and the notebook's side of a shell."""

from __future__ import annotations

MODEL = """%%disco
class Model:
    '''A model.

    Attributes:
        weight: what it has learnt.
    '''
    def __init__(self):
        self.weight = np.full((2, 2), worker_id)
    @property
    def costly(self):
        raise AssertionError
    def forward(self, inputs, scale=2):
        '''Run it.'''
        return inputs
def double(value, times=2):
    '''Do it twice.'''
    return value * times
model, same = Model(), np.ones(3)
"""


def front(shell):
    return shell.ip.__dict__["_disco_magic_extension"].front
