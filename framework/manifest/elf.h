// Reads one section of an ELF shared library from the file, without loading any code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

/// The bytes of a section, trailing zeros removed.
/// @throws PluginError "PATH: REASON" when the file cannot be read, is not a 64-bit little-endian
/// ELF
///         shared library, is cut short, or has no such section.
std::string read_elf_section(const std::string& path, const std::string& section);

/// Several sections in one pass: hundreds of files are read when plugins are listed. Empty where
/// there is no such section; the first must be there.
std::vector<std::optional<std::string>> read_elf_sections(const std::string& path,
                                                          const std::vector<std::string>& sections);

/// One section; empty if the file does not have it.
std::optional<std::string> find_elf_section(const std::string& path, const std::string& section);

}  // namespace attnlab
