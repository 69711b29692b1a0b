// A shared library that readers of manifests take for a plugin's.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <string_view>

namespace attnlab::testing {

/// Bytes of a shared library without code that has one section: what a plugin's file is to a
/// reader of manifests.
inline std::string library_with_section(std::string_view section, std::string_view content) {
  const std::string names = std::string(1, '\0') + std::string(section) + '\0' + ".shstrtab" + '\0';
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  header.e_shoff = sizeof header + content.size() + names.size();
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_PROGBITS;
  sections[1].sh_offset = sizeof header;
  sections[1].sh_size = content.size();
  sections[2].sh_name = static_cast<Elf64_Word>(section.size() + 2);
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sizeof header + content.size();
  sections[2].sh_size = names.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(content);
  bytes += names;
  return bytes.append(reinterpret_cast<const char*>(sections), sizeof sections);
}

}  // namespace attnlab::testing
