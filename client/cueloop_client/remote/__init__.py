"""A repository on another machine: `--host ssh://user@box/path`. Loaded only when one is named."""
