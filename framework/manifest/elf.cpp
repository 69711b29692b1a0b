#include "framework/manifest/elf.h"

#include <fmt/format.h>

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace attnlab {
namespace {

constexpr std::uint64_t kLargestSection = 1 << 18;  // a manifest is some kilobytes
constexpr std::uint64_t kLargestNames = 1 << 24;

/// Reads through the system's calls, each once: hundreds of files are read when plugins are listed.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : path_(path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) fail_to_read();
    // Asked before opening: opening a pipe would wait for a writer.
    if (!S_ISREG(status.st_mode)) fail("cannot be read: it is not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
    file_.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_.descriptor < 0) fail_to_read();
    if (size_ < SELFMAG) fail("is not an ELF file");
    read_at(0, std::min<std::uint64_t>(size_, sizeof header_), &header_);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) fail("is not an ELF file");
    if (size_ < sizeof header_) fail("is cut short: the ELF header is incomplete");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
      fail("is an ELF file of another machine (not 64-bit little-endian)");
    }
    if (header_.e_type != ET_DYN) fail("is an ELF file but no shared library");
    check_segments();
    read_section_headers();
  }

  std::string section(const std::string& wanted) {
    if (std::optional<std::string> found = find_section(wanted)) return *std::move(found);
    fail("has no section " + wanted);
  }

  std::optional<std::string> find_section(const std::string& wanted) {
    for (const Elf64_Shdr& section : sections_) {
      // No further than `wanted`: a stranger's name may be as long as the table, for each section.
      if (section.sh_name < names_.size() &&
          std::strncmp(names_.c_str() + section.sh_name, wanted.c_str(), wanted.size() + 1) == 0) {
        std::string text = content(section, kLargestSection);
        while (!text.empty() && text.back() == '\0') text.pop_back();
        return text;
      }
    }
    return std::nullopt;
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    throw PluginError(fmt::format("{}: {}", path_, what));
  }
  [[noreturn]] void fail_to_read() { fail(std::string("cannot be read: ") + std::strerror(errno)); }

  /// Asked before memory is taken for what a damaged header promises.
  void require(std::uint64_t offset, std::uint64_t count) {
    if (offset > size_ || count > size_ - offset) fail("is cut short");
  }

  void read_at(std::uint64_t offset, std::uint64_t count, void* out) {
    require(offset, count);
    auto* to = static_cast<char*>(out);
    while (count > 0) {
      const ssize_t got = ::pread(file_.descriptor, to, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("cannot be read");
      to += got;
      offset += static_cast<std::uint64_t>(got);
      count -= static_cast<std::uint64_t>(got);
    }
  }

  /// A library whose segments reach past its end would crash the loader with SIGBUS.
  void check_segments() {
    if (header_.e_phnum == 0) return;
    require(header_.e_phoff, header_.e_phnum * sizeof(Elf64_Phdr));
    std::vector<Elf64_Phdr> segments(header_.e_phnum);
    read_at(header_.e_phoff, segments.size() * sizeof(Elf64_Phdr), segments.data());
    for (const Elf64_Phdr& segment : segments) {
      if (segment.p_type != PT_LOAD) continue;
      if (segment.p_offset > size_ || segment.p_filesz > size_ - segment.p_offset) {
        fail("is cut short: its code ends after the end of the file");
      }
    }
  }

  void read_section_headers() {
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) fail("is damaged: bad section headers");
    require(header_.e_shoff, header_.e_shnum * sizeof(Elf64_Shdr));
    sections_.resize(header_.e_shnum);
    read_at(header_.e_shoff, sections_.size() * sizeof(Elf64_Shdr), sections_.data());
    if (header_.e_shstrndx >= sections_.size()) fail("is damaged: it has no section names");
    names_ = content(sections_[header_.e_shstrndx], kLargestNames);
  }

  std::string content(const Elf64_Shdr& header, std::uint64_t largest) {
    if (header.sh_type == SHT_NOBITS || header.sh_size > largest) {
      fail("is damaged: bad section size");
    }
    require(header.sh_offset, header.sh_size);
    std::string text(header.sh_size, '\0');
    read_at(header.sh_offset, text.size(), text.data());
    return text;
  }

  struct Descriptor {
    int descriptor = -1;
    ~Descriptor() {
      if (descriptor >= 0) ::close(descriptor);
    }
  };

  const std::string& path_;
  Descriptor file_;  // closed where the constructor throws, too
  std::uint64_t size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::string names_;
};

}  // namespace

std::string read_elf_section(const std::string& path, const std::string& section) {
  return ElfFile(path).section(section);
}

std::vector<std::optional<std::string>> read_elf_sections(
    const std::string& path, const std::vector<std::string>& sections) {
  ElfFile file(path);
  std::vector<std::optional<std::string>> texts;
  texts.reserve(sections.size());
  for (const std::string& section : sections) {
    texts.push_back(texts.empty() ? file.section(section) : file.find_section(section));
  }
  return texts;
}

std::optional<std::string> find_elf_section(const std::string& path, const std::string& section) {
  return ElfFile(path).find_section(section);
}

}  // namespace attnlab
