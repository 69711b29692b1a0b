// The tables of keys in docs/, as they are declared.
#pragma once

#include <fmt/format.h>

#include <string>

#include "framework/manifest/schema.h"

namespace attnlab::testing {

/// A page must hold it: what is declared is said once. To renew a page, copy what the test prints.
inline std::string key_table(const Schema& keys) {
  std::string table = "| Key | Value | Default | Means |\n|---|---|---|---|\n";
  for (const OptionSpec& key : keys) {
    std::string value = key.type_text();
    for (std::size_t at; (at = value.find(" | ")) != std::string::npos;) value.replace(at, 3, ", ");
    const std::string otherwise = key.required                  ? "must be given"
                                  : key.default_value.is_null() ? "-"
                                                                : to_flow(key.default_value);
    table += fmt::format("| `{}` | {} | {} | {} |\n", key.name, value, otherwise, key.help);
  }
  return table;
}

}  // namespace attnlab::testing
