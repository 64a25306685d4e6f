"""The fusion engine on SGLang. Nothing outside this folder imports SGLang's internals."""
