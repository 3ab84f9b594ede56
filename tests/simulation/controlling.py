"""What the controller sends: the real session's methods, each with what it should put on the queues."""

from __future__ import annotations

from disco_magic.core.messages import full
from tests.simulation.user_code import NAMES, combine, make, script
from tests.simulation.worker_reference import Order, Ref, require

MOST_REFS = 14


class Controlling:
    """Mixed into `World`. A method returns False if it is impossible now, and has done nothing then."""

    # --- sending -------------------------------------------------------------------------------------------

    def _send(self, act, *orders):
        """Call a method of the session; its messages have to be those of `orders`."""
        life = self.life
        life.launcher.sent.clear()
        issued = life.book.issue(*orders)
        for order in issued:
            if order.kind == "bind" and order.register == "first":
                order.register = orders[0].dest
        outcome = act()
        sent = [
            (w, full(m).seq, tuple(full(m).kills), getattr(full(m), "dest", None))
            for w, m in life.launcher.sent
        ]
        should = [(w, order.seq, order.kills, order.dest) for order in issued for w in order.workers]
        require(sent == should, "sent (is, should be): worker, seq, kills, dest", sent, should)
        for order in issued:
            for w in order.workers:
                life.crew[w].stream.append(order)
            self.note(f"send {order.kind}", "controller", order, "to", order.workers)
        return outcome

    def _chosen(self, all_likely=0.75):
        """Workers of a command, as an argument and as a tuple."""
        everybody = self.life.book.everybody
        if self.rng.random() < all_likely:
            return None, everybody
        some = tuple(sorted(self.rng.sample(everybody, self.rng.randint(1, len(everybody)))))
        return some, some

    def _keep(self, dref, order):
        require(dref.register == order.dest, "register of the new reference", dref.register, order.dest)
        self.life.refs.append(dref)

    def _argument(self):
        """An argument as the session gets it, and as the reference does."""
        fate = self.rng.random()
        if fate < 0.45 and self.life.refs:
            dref = self.rng.choice(self.life.refs)
            return dref, Ref(dref.register)
        if fate < 0.55:
            return [self.rng.randrange(100)], None
        return self.rng.randrange(1000), None

    def call(self):
        """A call, in every form."""
        both = [self._argument() for _ in range(self.rng.randint(0, 3))]
        args = [given for given, _ in both]
        meant = tuple(given if ref is None else ref for given, ref in both)
        function, target = self._function()
        workers, chosen = self._chosen()
        named = {"k": args.pop()} if args and self.rng.random() < 0.2 else {}
        plans = script(self.rng, chosen) if self.rng.random() < self.talk else None
        order = Order("call", workers=chosen, dest="new", function=target, args=meant, plans=plans)
        dref = self._send(lambda: self.session.call_packed(function, *args, workers=workers, **named), order)
        if function is make:
            self.life.tools.append(order.dest)
        self._keep(dref, order)

    def _function(self):
        fate = self.rng.random()
        tools = [dref for dref in self.life.refs if dref.register in self.life.tools]
        if fate < 0.2 and tools:
            dref = self.rng.choice(tools)
            return dref, Ref(dref.register)
        if fate < 0.22 and self.life.refs:
            dref = self.rng.choice(self.life.refs)
            return dref, Ref(dref.register)
        function = make if fate < 0.4 else combine
        return function, function

    def store(self):
        value = self.rng.randrange(1000)
        only = self._chosen(0.5)[0]
        order = Order("store", workers=self.life.book.everybody, dest="new", value=value, only=only)
        self._keep(self._send(lambda: self.session.store(value, only), order), order)

    def set_register(self):
        if not self.life.refs:
            return False
        dref, w, value = (
            self.rng.choice(self.life.refs),
            self.rng.randrange(self.size),
            self.rng.randrange(1000),
        )
        orders = [Order("store", workers=(w,), dest=dref.register, value=value, only=(w,))]
        name = getattr(dref, "bound_as", None)
        if name is not None:
            orders.append(Order("bind", workers=(w,), name=name, register=dref.register))
        self._send(lambda: dref.set(w, value), *orders)
        if name is not None:
            self.life.book.rename(orders[1].seq, name, bound=True, workers=(w,))
        return None

    def load(self):
        known = self.session.names()
        if not known:
            return False
        name = self.rng.choice(known)
        order = Order("load", workers=self.life.book.everybody, dest="new", name=name)
        self._keep(self._send(lambda: self.session[name], order), order)
        return None

    def bind(self):
        if not self.life.refs:
            return False
        dref, name = self.rng.choice(self.life.refs), self.rng.choice(NAMES)
        order = Order("bind", workers=self.life.book.everybody, name=name, register=dref.register)
        self._send(lambda: self.session.__setitem__(name, dref), order)
        self.life.book.rename(order.seq, name, bound=True)
        return None

    def put(self):
        """A store, a binding, and the reference between them is gone at once."""
        name, value, everybody = self.rng.choice(NAMES), self.rng.randrange(1000), self.life.book.everybody
        one = self.rng.choice([None, *everybody])
        chosen = None if one is None else (one,)
        stored = Order("store", workers=everybody, dest="new", value=value, only=chosen)
        bound = Order("bind", workers=chosen or everybody, name=name, register="first")
        self._send(lambda: self.session.put(name, value, workers=chosen), stored, bound)
        self.life.book.rename(bound.seq, name, bound=True, workers=chosen)
        self.life.book.dropped.append(stored.dest)

    def unbind(self):
        known = self.session.names()
        if not known:
            return False
        name = self.rng.choice(known)
        order = Order("unbind", workers=self.life.book.everybody, name=name)
        self._send(lambda: self.session.__delitem__(name), order)
        self.life.book.rename(order.seq, name, bound=False)
        return None

    def flush(self):
        if not self.life.book.dropped:
            return False
        kills = tuple(self.life.book.dropped)
        order = Order("kill", workers=self.life.book.everybody)
        self._send(self.session.flush, order)
        require(order.kills == kills, "flush kills", order.kills, kills)
        return None

    def drop(self):
        """A reference dies."""
        refs = self.life.refs
        if not refs:
            return False
        place = self.rng.randrange(len(refs))
        register = refs[place].register
        if register in self.life.tools:
            self.life.tools.remove(register)
        self.note("drop", "controller", register)
        del refs[place]
        self.life.book.dropped.append(register)
        return None
