"""The horovod engine: parallel SGD as most people run it, one Horovod allreduce a step."""

from torch import Tensor

from expograph.cluster.launch import JobError
from expograph.cluster.mpi_group import MpiGroup
from expograph.engines.ranked import Part, Ranked, Wait
from expograph.graphs.topology import Topology


class Horovod(Ranked):
    """Exact averaging only; Horovod has no neighbour exchange."""

    def __init__(self, schedule: Topology, group: MpiGroup) -> None:
        try:
            import horovod.torch as hvd
        except (ImportError, OSError) as e:
            cause = str(e).splitlines()[-1]
            raise JobError(f"Horovod does not load ({cause}): `make cluster-env`") from None
        with group.waiting("Horovod's start-up"):
            hvd.init()  # again does nothing
        self.hvd = hvd
        super().__init__(schedule, group)

    def _average(self, part: Part, wire: Tensor, what: str) -> Wait:
        if not part.exact:
            raise JobError(f"Horovod averages exactly, {self.topology.name} does not")
        handle = self.hvd.allreduce_async(wire, name="mean", op=self.hvd.Average)

        def reduced() -> Tensor:
            self.group.wait(lambda: self.hvd.poll(handle), what)
            mean: Tensor = self.hvd.synchronize(handle)
            return mean

        return reduced

    def _exchange(self, part: Part, wire: Tensor, what: str) -> Wait:
        raise JobError("Horovod has no neighbour exchange: take another engine")
