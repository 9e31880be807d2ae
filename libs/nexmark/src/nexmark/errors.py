"""The one error of this package.

```
ValueError
└── NexmarkError    a setting or an argument the generator cannot honour: correct it and call again
```
"""


class NexmarkError(ValueError):
    """A setting or argument is out of range; the message names the cause and the remedy."""
