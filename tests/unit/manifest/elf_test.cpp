#include "framework/manifest/elf.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "tests/support/compositions.h"
#include "tests/support/deadline.h"
#include "tests/support/unprivileged.h"

namespace attnlab::elf_test {
namespace {

using namespace testing;

const std::string kContent = "{\"text\": \"of the section\"}";

std::string made() { return library_with_section(".made", kContent + std::string(3, '\0')); }

/// Why a file of these bytes is refused, without its path.
std::string refusal(const std::string& bytes, const std::string& section = ".made") {
  const TempFolder folder;
  const std::string path = folder.write("x.so", bytes);
  const std::string message = message_of<PluginError>([&] { read_elf_section(path, section); });
  EXPECT_THAT(message, StartsWith(path + ": "));
  return message.substr(std::min(message.size(), path.size() + 2));
}

template <class Header>
std::string changed(std::string bytes, std::size_t offset, const Header& header) {
  std::memcpy(bytes.data() + offset, &header, sizeof header);
  return bytes;
}

Elf64_Ehdr header_of(const std::string& bytes) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

TEST(ReadElfSection, GivesTheSectionsBytesWithoutTrailingZeros) {
  const TempFolder folder;
  EXPECT_EQ(read_elf_section(folder.write("x.so", made()), ".made"), kContent);
  EXPECT_EQ(read_elf_section(folder.write("y.so", library_with_section(".made", "")), ".made"), "");
}

TEST(ReadElfSection, ReadsWhatTheLinkerWrites) {
  const std::string core = Installation::of_this_program().root + "/lib/libattnlab_core.so";
  EXPECT_THAT(read_elf_section(core, ".comment"), HasSubstr("GCC"));
}

TEST(ReadElfSection, RefusesFilesThatAreNoSharedLibrary) {
  EXPECT_EQ(refusal(""), "is not an ELF file");
  EXPECT_EQ(refusal("ELF"), "is not an ELF file");
  EXPECT_EQ(
      refusal("#!/bin/sh\necho a script that is longer than an ELF header would be, really\n"),
      "is not an ELF file");
  std::string bytes = made();
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(refusal(bytes), says({"another machine", "64-bit little-endian"}));
  bytes = made();
  bytes[EI_DATA] = ELFDATA2MSB;
  EXPECT_THAT(refusal(bytes), says({"another machine", "64-bit little-endian"}));
  Elf64_Ehdr header = header_of(made());
  header.e_type = ET_REL;
  EXPECT_THAT(refusal(changed(made(), 0, header)), says({"ELF file", "no shared library"}));
}

TEST(ReadElfSection, RefusesAFileCutShortAtAnyLength) {
  const std::string whole = made();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string reason = refusal(whole.substr(0, length));
    ASSERT_THAT(reason, ::testing::AnyOf(StartsWith("is cut short"), "is not an ELF file"))
        << length;
  }
}

TEST(ReadElfSection, NoticesSegmentsThatReachPastTheEndOfTheFile) {
  // The loader would map such a segment and die of SIGBUS.
  std::string bytes = made();
  Elf64_Ehdr header = header_of(bytes);
  header.e_phoff = bytes.size();
  header.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_filesz = 4096;
  bytes = changed(bytes, 0, header) + std::string(sizeof segment, '\0');
  EXPECT_THAT(refusal(changed(bytes, header.e_phoff, segment)), says({"cut short", "ends after"}));
}

TEST(ReadElfSection, RefusesDamagedTablesOfSections) {
  Elf64_Ehdr header = header_of(made());
  header.e_shstrndx = 9;
  EXPECT_THAT(refusal(changed(made(), 0, header)), says({"damaged", "section names"}));
  header = header_of(made());
  header.e_shentsize = 8;
  EXPECT_EQ(refusal(changed(made(), 0, header)), "is damaged: bad section headers");
  header = header_of(made());
  header.e_shoff = ~std::uint64_t{0} - 7;
  EXPECT_EQ(refusal(changed(made(), 0, header)), "is cut short");

  header = header_of(made());
  const std::size_t made_section = header.e_shoff + sizeof(Elf64_Shdr);
  Elf64_Shdr section;
  std::memcpy(&section, made().data() + made_section, sizeof section);
  section.sh_size = std::uint64_t{1} << 40;
  EXPECT_EQ(refusal(changed(made(), made_section, section)), "is damaged: bad section size");
  section.sh_size = (1 << 18) + 1;
  EXPECT_EQ(refusal(changed(made(), made_section, section)), "is damaged: bad section size");
  section.sh_size = 1 << 18;
  EXPECT_EQ(refusal(changed(made(), made_section, section)), "is cut short");
}

TEST(ReadElfSection, ReadsNamesWithoutEndOnlyAsFarAsTheyMatter) {
  const testing::Deadline deadline;  // for what takes a time that grows with the square
  constexpr std::size_t kSections = 65'535, kNames = 1 << 24;
  Elf64_Ehdr header = header_of(made());
  header.e_shnum = kSections;
  header.e_shstrndx = 0;
  header.e_shoff = sizeof header + kNames;
  Elf64_Shdr section{};
  section.sh_type = SHT_STRTAB;
  section.sh_name = 1;
  section.sh_offset = sizeof header;
  section.sh_size = kNames;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(kNames, '.');
  bytes.reserve(bytes.size() + kSections * sizeof section);
  for (std::size_t i = 0; i < kSections; ++i) {
    bytes.append(reinterpret_cast<const char*>(&section), sizeof section);
  }
  EXPECT_EQ(refusal(bytes), "has no section .made");
}

TEST(ReadElfSection, NamesTheSectionThatIsMissing) {
  EXPECT_EQ(refusal(made(), ".other"), "has no section .other");
  EXPECT_EQ(refusal(made(), ".mad"), "has no section .mad");
}

TEST(ReadElfSection, SurvivesAnyChangedByte) {
  const TempFolder folder;
  const std::string whole = made();
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    std::string bytes = whole;
    for (int j = 0; j < 3; ++j) bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::string path = folder.write("x.so", bytes);
    try {
      read_elf_section(path, ".made");
    } catch (const PluginError& error) {
      ASSERT_THAT(error.what(), StartsWith(path));
    }
  }
}

TEST(ReadElfSection, RefusesWhatIsNoRegularFileWithoutWaiting) {
  const TempFolder folder;
  const auto refused = [](const std::string& path) {
    return message_of<PluginError>([&] { read_elf_section(path, ".made"); });
  };
  EXPECT_THAT(refused(folder / "gone.so"),
              says({folder / "gone.so", "cannot be read", "No such file"}));
  EXPECT_THAT(refused(folder.path()), says({folder.path(), "cannot be read", "regular file"}));
  ASSERT_EQ(::mkfifo((folder / "pipe.so").c_str(), 0600), 0);
  EXPECT_THAT(refused(folder / "pipe.so"),
              says({folder / "pipe.so", "cannot be read", "regular file"}));
}

TEST(ReadElfSection, NamesAFileThatMayNotBeRead) {
  const TempFolder folder;
  const std::string path = folder.write("x.so", made());
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const Unprivileged user(folder.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  EXPECT_EQ(message_of<PluginError>([&] { read_elf_section(path, ".made"); }),
            path + ": cannot be read: Permission denied");
}

}  // namespace
}  // namespace attnlab::elf_test
