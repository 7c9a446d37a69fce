"""A profile from environment variables, which operators change without code.

Each parameter has a variable, `TOOLROLL_` and its name in capitals; `TOOLROLL_PROFILE` names the profile that
they change. Only the command line reads them: elsewhere a decision does not depend on its environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields

from toolroll.cli.parameter_types import parameter_value
from toolroll.model.errors import InvalidInput
from toolroll.selection.environment_names import PREFIX, warn_of_unknown
from toolroll.selection.profiles import Profile, profile

PROFILE = PREFIX + "PROFILE"


def from_environment(of: str | Profile | None = None, environ: Mapping[str, str] = os.environ) -> Profile:
    """The parameters of a profile, changed by the variables of the environment.

    of: a profile or its name; None means the one in `TOOLROLL_PROFILE`, else the default. Empty variables are
    ignored, and unknown ones are logged once.

    Raises:
        NotFound: there is no profile of that name.
        InvalidInput: a value is wrong; says which variable.
    """
    warn_of_unknown(environ)
    if of is None:
        of = environ.get(PROFILE) or "default"
    parameters = profile(of) if isinstance(of, str) else of
    for field in fields(Profile):
        variable = PREFIX + field.name.upper()
        if text := environ.get(variable, "").strip():
            try:
                parameters = parameters.with_(**{field.name: parameter_value(text)})
            except InvalidInput as error:
                raise InvalidInput(f"environment variable {variable}: {error}") from error
    return parameters
