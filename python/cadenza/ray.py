"""Ray Data: answers to the rows of a dataset, by actors with a model each.

    import cadenza.ray
    ds = cadenza.ray.map_batches(ray.data.from_items(rows), "my-model", workers=2, max_new_tokens=40)

The weights are mapped from their file: actors of one node share its pages. A killed actor's rows are answered again by Ray, and an
answer hangs on its row alone, so none differs.
"""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from .errors import UsageError
from .jobs import Answers, nodes

__all__ = ["map_batches"]


def map_batches(dataset: Any, model: Union[str, "os.PathLike[str]"], *, workers: Union[int, str] = 1, batch_size: int = 64,
                num_cpus: float = 1, num_gpus: Optional[float] = None, ray_remote_args: Optional[dict[str, Any]] = None,
                **options: Any) -> Any:  # fmt: skip
    """The dataset with the columns of :class:`cadenza.jobs.Answers` more: "generated" and "generated_ids".

    workers: actors, or "numa": one for each NUMA node of this machine, bound to it. num_cpus, num_gpus: of an actor, whose engine
    has as many threads unless threads= says otherwise. ray_remote_args: further arguments of Ray's map_batches. options: the
    other arguments of Answers and generation parameters. Ray keeps the order of rows only with its own preserve_order.
    """
    import ray.data

    if isinstance(workers, str):
        if workers != "numa":
            raise UsageError(f'workers: expected a number or "numa", found {workers!r}')
        options["numa"] = True
    size = len(nodes()) if isinstance(workers, str) else int(workers)
    if size < 1:
        raise UsageError(f"workers: expected at least 1, found {workers}")
    if not options.get("numa"):
        options.setdefault("threads", max(1, int(num_cpus)))
    Answers(model, **options)  # refuses here what every actor would
    return dataset.map_batches(
        Answers,
        fn_constructor_args=(os.path.abspath(model) if os.path.exists(model) else os.fspath(model),),
        fn_constructor_kwargs=options,
        compute=ray.data.ActorPoolStrategy(size=size),
        batch_size=batch_size,
        batch_format="numpy",
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        **(ray_remote_args or {}),
    )
