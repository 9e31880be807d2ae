"""The library's errors as status codes of gRPC, and back."""

from __future__ import annotations

import grpc

from statemgr.errors import HolderUnavailableError, NoSuchCopyError, StaleRequestError, StateError


def code_of(error: StateError | ValueError) -> grpc.StatusCode:
    """The code by which a state manager says this error."""
    match error:
        case StaleRequestError(later=True):
            return grpc.StatusCode.ABORTED
        case StaleRequestError():
            return grpc.StatusCode.FAILED_PRECONDITION
        case NoSuchCopyError():
            return grpc.StatusCode.NOT_FOUND
        case HolderUnavailableError():
            return grpc.StatusCode.UNAVAILABLE
        case StateError():
            return grpc.StatusCode.INTERNAL
    return grpc.StatusCode.INVALID_ARGUMENT


def error_of(code: grpc.StatusCode, details: str, holder: str) -> StateError:
    """The error that a code stands for; what is neither a refusal nor an absence counts as no answer."""
    if code == grpc.StatusCode.ABORTED:
        return StaleRequestError(details, later=True)
    if code == grpc.StatusCode.FAILED_PRECONDITION:
        return StaleRequestError(details, later=False)
    if code == grpc.StatusCode.NOT_FOUND:
        return NoSuchCopyError(details)
    return HolderUnavailableError(f"no answer from the state manager of {holder}: {details or code.name}")
