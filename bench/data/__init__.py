"""From text to requests: checks of samples, truncation, the chat turn, file formats, span sets."""
