# Its rule is compiled for each instruction set.
set(_libraries attnlab_highway)
