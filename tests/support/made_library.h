// A shared library that readers of manifests take for a plugin's.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace attnlab::testing {

/// Bytes of a shared library without code that has these sections, by name: what a plugin's file is
/// to a reader of manifests.
inline std::string library_with_sections(
    const std::vector<std::pair<std::string, std::string>>& contents) {
  std::string names(1, '\0'), bytes;
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](const std::string& name, const std::string& content, Elf64_Word type) {
    Elf64_Shdr& section = sections.emplace_back();
    section.sh_name = static_cast<Elf64_Word>(names.size());
    section.sh_type = type;
    section.sh_offset = sizeof(Elf64_Ehdr) + bytes.size();
    names += name + '\0';
    section.sh_size = type == SHT_STRTAB ? names.size() : content.size();
    bytes += type == SHT_STRTAB ? names : content;
  };
  for (const auto& [name, content] : contents) add(name, content, SHT_PROGBITS);
  add(".shstrtab", "", SHT_STRTAB);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
  header.e_shstrndx = static_cast<Elf64_Half>(sections.size() - 1);
  header.e_shoff = sizeof header + bytes.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + bytes +
         std::string(reinterpret_cast<const char*>(sections.data()),
                     sections.size() * sizeof(Elf64_Shdr));
}

inline std::string library_with_section(const std::string& section, const std::string& content) {
  return library_with_sections({{section, content}});
}

}  // namespace attnlab::testing
