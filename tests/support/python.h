// Whether Python is there to read files, for tests that skip without it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace attnlab::testing {

inline bool python_is_there() {
  static const bool there = std::system("python3 -c 'import ast' >/dev/null 2>&1") == 0;
  return there;
}

/// A file with an attention that can be packed. @param more  statements of the class
inline std::string packable_attention(const std::string& version = "1.0.0",
                                      const std::string& more = "") {
  return "import torch\n"
         "from typing import Annotated\n"
         "from attnlab.python import Range, softmax\n"
         "class Mine(torch.nn.Module):\n"
         "    \"\"\"softmax(Q K / t) V.\n\n    temperature: what logits are divided by\n    "
         "\"\"\"\n"
         "    version = \"" +
         version +
         "\"\n"
         "    citation = \"Somebody: Mine, 2026\"\n"
         "    licence = \"Apache-2.0\"\n"
         "    def __init__(self, temperature: Annotated[float, Range(0.1, 10)] = 1.0):\n"
         "        super().__init__()\n"
         "        self.temperature = temperature\n"
         "    def forward(self, q, k, v, visible):\n"
         "        return softmax(q @ k.transpose(-2, -1) / self.temperature, visible) @ v\n" +
         more;
}

}  // namespace attnlab::testing
