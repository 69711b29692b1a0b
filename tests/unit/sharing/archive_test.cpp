// Archives: what is written is read, and what could do harm is refused.
#include "framework/sharing/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace attnlab::testing::archive_test {
namespace {

using sharing::ArchiveFile;
using sharing::BundleError;
using ::testing::HasSubstr;

std::map<std::string, std::string> contents_of(const std::string& bytes,
                                               const sharing::ArchiveLimits& limits = {}) {
  std::map<std::string, std::string> all;
  sharing::read_archive(
      bytes, [&](ArchiveFile file) { all[file.path] = std::move(file.bytes); }, limits);
  return all;
}

std::string refusal_of(const std::string& bytes, const sharing::ArchiveLimits& limits = {}) {
  try {
    contents_of(bytes, limits);
  } catch (const BundleError& error) {
    return error.what();
  }
  return "taken";
}

/// One entry of an archive that ours would never write.
struct Hostile {
  std::string path = "file";
  int type = AE_IFREG;
  std::string link = "";
  bool hard = false;
  std::string bytes = "x";
};

std::string archive_of(const std::vector<Hostile>& entries,
                       int (*format)(archive*) = archive_write_set_format_pax) {
  std::string out(1 << 20, '\0');
  std::size_t used = 0;
  archive* const writer = ::archive_write_new();
  format(writer);
  ::archive_write_add_filter_zstd(writer);
  ::archive_write_open_memory(writer, out.data(), out.size(), &used);
  for (const Hostile& one : entries) {
    archive_entry* const entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, one.path.c_str());
    ::archive_entry_set_filetype(entry, static_cast<unsigned>(one.type));
    ::archive_entry_set_perm(entry, 0644);
    if (!one.link.empty() && one.hard) ::archive_entry_set_hardlink(entry, one.link.c_str());
    if (!one.link.empty() && !one.hard) ::archive_entry_set_symlink(entry, one.link.c_str());
    const bool regular = one.type == AE_IFREG && one.link.empty();
    ::archive_entry_set_size(entry, regular ? static_cast<la_int64_t>(one.bytes.size()) : 0);
    EXPECT_GE(::archive_write_header(writer, entry), ARCHIVE_WARN);
    if (regular) ::archive_write_data(writer, one.bytes.data(), one.bytes.size());
    ::archive_entry_free(entry);
  }
  ::archive_write_close(writer);
  ::archive_write_free(writer);
  out.resize(used);
  return out;
}

TEST(Archive, IsReadAsItWasWritten) {
  const std::string bytes = sharing::write_archive({{"b/two", "2", true}, {"a", "", false}});
  EXPECT_THAT(contents_of(bytes),
              ::testing::ElementsAre(::testing::Pair("a", ""), ::testing::Pair("b/two", "2")));
}

TEST(Archive, HasTheSameBytesWhateverTheOrder) {
  EXPECT_EQ(sharing::write_archive({{"a", "1"}, {"b", "2"}}),
            sharing::write_archive({{"b", "2"}, {"a", "1"}}));
}

TEST(Archive, RefusesToWriteWhatItWouldNotRead) {
  EXPECT_THROW(sharing::write_archive({{"../a", "1"}}), BundleError);
  EXPECT_THROW(sharing::write_archive({{"a", "1"}, {"A", "2"}}), BundleError);
  EXPECT_THROW(sharing::write_archive({{"a", "1"}, {"a/b", "2"}}), BundleError);
}

TEST(Archive, RefusesToWriteMoreThanItWouldRead) {
  const std::vector<ArchiveFile> three = {{"a", "1"}, {"b", "22"}, {"c", "333"}};
  EXPECT_NO_THROW(sharing::write_archive(three, {.files = 3, .file_bytes = 3, .all_bytes = 6}));
  EXPECT_THROW(sharing::write_archive(three, {.files = 2}), BundleError);
  EXPECT_THROW(sharing::write_archive(three, {.file_bytes = 2}), BundleError);
  EXPECT_THROW(sharing::write_archive(three, {.all_bytes = 5}), BundleError);
}

TEST(Archive, TakesLongNamesAndManyFiles) {
  const std::string name(150, 'n'), path = std::string(99, 'a') + "/" + std::string(100, 'b');
  const std::string cut = std::string(60, 'a') + "/" + std::string(98, 'b') + "/" +
                          std::string(40, 'c');  // no place to cut it for ustar
  const std::string bytes = sharing::write_archive({{name, "1"}, {path, "2"}, {cut, "3"}});
  EXPECT_EQ(bytes, sharing::write_archive({{name, "1"}, {path, "2"}, {cut, "3"}}));
  const auto read = contents_of(bytes);
  EXPECT_EQ(read.size(), 3U);
  EXPECT_EQ(read.at(name), "1");
  EXPECT_EQ(read.at(cut), "3");
  std::vector<ArchiveFile> many;
  for (int i = 0; i < 20'000; ++i) many.push_back({"run-" + std::to_string(i) + "/lock.json", ""});
  EXPECT_EQ(contents_of(sharing::write_archive(many)).size(), many.size());
}

TEST(Archive, RefusesPathsThatLeaveTheFolder) {
  for (const char* path : {"../x", "a/../../x", "/etc/passwd", "a/./b", "a//b", "..", "-rf", "a\\b",
                           "a\nb", "\xd0\xb0", "a/-x", "c:x"}) {
    EXPECT_NE(refusal_of(archive_of({{path}})), "taken") << path;
  }
  EXPECT_EQ(refusal_of(archive_of({{"a/b.txt"}})), "taken");
}

TEST(Archive, RefusesLinksFoldersAndDevices) {
  const std::string kind = "link, a folder or a device";
  EXPECT_THAT(refusal_of(archive_of({{"x", AE_IFLNK, "/etc/passwd"}})), HasSubstr(kind));
  EXPECT_THAT(refusal_of(archive_of({{"a"}, {"x", AE_IFREG, "a", true}})), HasSubstr(kind));
  EXPECT_THAT(refusal_of(archive_of({{"x", AE_IFIFO}})), HasSubstr(kind));
  EXPECT_THAT(refusal_of(archive_of({{"x", AE_IFCHR}})), HasSubstr(kind));
  EXPECT_THAT(refusal_of(archive_of({{"x", AE_IFBLK}})), HasSubstr(kind));
  EXPECT_NE(refusal_of(archive_of({{"x", AE_IFDIR}})), "taken");
}

TEST(Archive, RefusesNamesThatAreTwice) {
  EXPECT_THAT(refusal_of(archive_of({{"a"}, {"a"}})), HasSubstr("twice"));
  EXPECT_THAT(refusal_of(archive_of({{"b"}, {"a"}})), HasSubstr("not in its order"));
  EXPECT_THAT(refusal_of(archive_of({{"A"}, {"a"}})), HasSubstr("upper case aside"));
  EXPECT_THAT(refusal_of(archive_of({{"a"}, {"a/b"}})), HasSubstr("a file and a folder"));
}

TEST(Archive, RefusesBombsBeforeTheyGoOff) {
  const std::string zeros(1 << 20, '\0');
  const std::string bomb = sharing::write_archive({{"a", zeros}, {"b", zeros}, {"c", zeros}});
  ASSERT_LT(bomb.size(), 10'000U);
  EXPECT_THAT(refusal_of(bomb, {.file_bytes = 1 << 19}), HasSubstr("a file may have"));
  EXPECT_THAT(refusal_of(bomb, {.all_bytes = 5 << 19}), HasSubstr("'c'"));
  EXPECT_THAT(refusal_of(bomb, {.files = 2}), HasSubstr("more than 2 files"));
  EXPECT_EQ(refusal_of(bomb), "taken");
}

TEST(Archive, RefusesOtherFormats) {
  EXPECT_NE(refusal_of(archive_of({{"a"}}, archive_write_set_format_zip)), "taken");
  EXPECT_NE(refusal_of(archive_of({{"a"}}, archive_write_set_format_cpio)), "taken");
  EXPECT_NE(refusal_of(""), "taken");
  EXPECT_NE(refusal_of("no archive"), "taken");
  const std::string whole = sharing::write_archive({{"a", std::string(100'000, 'x')}});
  EXPECT_NE(refusal_of(whole.substr(0, whole.size() / 2)), "taken");
}

}  // namespace
}  // namespace attnlab::testing::archive_test
