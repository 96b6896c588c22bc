"""`check --config`: from somebody's files to a strategy, and a patch towards the best plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .narrow import searched_for

if TYPE_CHECKING:
    from ..launch.documents import Document
    from ..launch.read import Read
    from ..plans import FilesRead, Request


def read_files(paths: Sequence[str], request: Request) -> tuple[Read, list[Document]]:
    """The strategy in the files at `paths`, and the files."""
    from ..launch import read_config
    from ..launch.documents import documents

    found = documents(paths)
    return read_config(found, request), found


def files_told(read: Read, documents: Sequence[Document], request: Request) -> FilesRead:
    """Client, plan and edits of the files, and the patch."""
    from ..inputs import read_text
    from ..launch.diff import diff
    from ..launch.patch import FILES, patch
    from ..launch.written import origin_of, other_job
    from ..plans import Edited, FilesRead, Patched, Plan
    from ..solver.laid import laid_out

    told = FilesRead(client=read.client)
    origin = origin_of(documents, read.strategy)
    if origin is not None:
        edited = tuple(Edited(**edit._asdict()) for edit in origin.edits)
        here, _ = laid_out(request, read.strategy)
        other = tuple(Edited(**edit._asdict()) for edit in other_job(origin.plan.request, here))
        told = FilesRead(
            client=read.client,
            plan_hash=origin.plan_hash,
            edited_files=origin.edited_files,
            edited=edited,
            other_job=other,
        )
    if read.client not in FILES or read.file.get("deepspeed_config") is not None:
        return told
    best = searched_for(request, read.client, "--config")
    if not isinstance(best, Plan) or read.client not in best.writable_by:
        return told
    changes = patch(read.file, read.client, best)
    return told.model_copy(
        update={
            "patch": tuple(Patched(**change._asdict()) for change in changes),
            "diff": diff(read_text(read.file.name, "file"), read.file, read.client, changes),
            "patched_step_seconds": best.time.step_seconds,
        }
    )
