#include "framework/data/formats/files.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>

#include "framework/base/random.h"
#include "framework/data/formats/detail/promised_size.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::files_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using ::testing::AllOf;
using testing::gzipped;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::StartsWith;
using testing::TempFolder;

/// Sets ATTNLAB_DATA for one test.
class DataVariable {
 public:
  explicit DataVariable(const char* value) {
    if (const char* before = std::getenv("ATTNLAB_DATA")) before_ = before;
    set(value);
  }
  ~DataVariable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static void set(const char* value) {
    if (value != nullptr) {
      ::setenv("ATTNLAB_DATA", value, 1);
    } else {
      ::unsetenv("ATTNLAB_DATA");
    }
  }
  std::optional<std::string> before_;
};

std::string noise(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(DataFolder, ComesFromTheVariable) {
  const TempFolder folder;
  const DataVariable variable(folder.path().c_str());
  folder.write("toy/a.bin", "1");
  folder.write("toy/b.bin.gz", "2");
  EXPECT_EQ(find_data_folder({"toy", {"a.bin", "b.bin"}, "", ""}), folder / "toy");
}

TEST(DataFolder, LacksAPackedFileThatItsReaderDoesNotTake) {
  const TempFolder folder;
  folder.write("a.json.gz", "1");
  DataSearch search{"toy", {"a.json"}, folder.path(), "fetch it"};
  EXPECT_EQ(find_data_folder(search), folder.path());
  search.packed = false;
  EXPECT_THAT(message_of<DataMissingError>([&] { find_data_folder(search); }),
              HasSubstr(folder.path() + ": lacks a.json (unpack a.json.gz)\n"));
  folder.write("a.json", "1");
  EXPECT_EQ(find_data_folder(search), folder.path());
}

TEST(DataFolder, PrefersTheRootOption) {
  const TempFolder folder, elsewhere;
  const DataVariable variable(folder.path().c_str());
  folder.write("toy/a.bin", "1");
  elsewhere.write("a.bin", "1");
  EXPECT_EQ(find_data_folder({"toy", {"a.bin"}, elsewhere.path(), ""}), elsewhere.path());
}

TEST(DataFolder, MayStandBelowTheRootOption) {
  const TempFolder folder;
  folder.write("toy/a.bin", "1");
  EXPECT_EQ(find_data_folder({"toy", {"a.bin"}, folder.path(), ""}), folder / "toy");
}

TEST(DataFolder, IsNotChosenAmongTwoThatTheRootOptionMayMean) {
  const TempFolder folder;
  folder.write("toy/a.bin", "1");
  folder.write("toy/b.bin", "1");
  const DataSearch search{"toy", {"a.bin", "b.bin"}, folder.path(), ""};
  folder.write("b.bin.gz", "2");
  const auto refusal = [&] { return message_of<OptionError>([&] { find_data_folder(search); }); };
  EXPECT_THAT(refusal(), AllOf(HasSubstr(folder / "b.bin.gz is there, and " + (folder / "toy") +
                                         " has such files, too"),
                               HasSubstr("set it to " + (folder / "toy"))));
  folder.write("a.bin", "2");
  EXPECT_THAT(refusal(), HasSubstr("a.bin is there")) << "though all are";
  std::filesystem::remove(folder / "toy/a.bin");
  EXPECT_EQ(find_data_folder(search), folder.path());
  std::filesystem::remove_all(folder / "toy");
  std::filesystem::create_symlink(".", folder / "toy");
  EXPECT_EQ(find_data_folder(search), folder.path()) << "they are one";
}

TEST(DataFolder, ListsEveryPlaceThatWasTriedAndTheRemedy) {
  const TempFolder folder;
  const DataVariable variable(folder.path().c_str());
  folder.write("toy-set/a.bin", "1");
  const std::string message = message_of<DataMissingError>([] {
    find_data_folder({"toy-set", {"a.bin", "b.bin"}, "", "install the package toys"});
  });
  EXPECT_THAT(message, HasSubstr((folder / "toy-set") + ": lacks b.bin\n"));
  EXPECT_THAT(message, mentions("/usr/share/datasets/toy-set:", "no such"));
  EXPECT_THAT(message, mentions("/usr/local/share/datasets/toy-set:", "no such"));
  EXPECT_THAT(message, HasSubstr("install the package toys"));
  EXPECT_THAT(message, HasSubstr("`root`"));
}

TEST(DataFolder, SaysThatTheVariableIsNotSet) {
  const DataVariable variable(nullptr);
  EXPECT_THAT(message_of<DataMissingError>([] {
                find_data_folder({"toy-set", {"a.bin"}, "", ""});
              }),
              mentions("$ATTNLAB_DATA/toy-set:", "is not set"));
}

TEST(DataFolder, DoesNotLookElsewhereWhenTheRootOptionIsWrong) {
  const TempFolder folder;
  const DataVariable variable(folder.path().c_str());
  folder.write("toy/a.bin", "1");
  const std::string wrong = folder / "nowhere";
  EXPECT_THAT(message_of<DataMissingError>([&] {
                find_data_folder({"toy", {"a.bin"}, wrong, ""});
              }),
              AllOf(HasSubstr(wrong + ": no such folder"), HasSubstr(wrong + "/toy: no such")));
}

TEST(DataFile, IsReadPlainAndCompressed) {
  const TempFolder folder;
  for (const std::size_t size : {0, 1, 1000, 300000}) {
    const std::string bytes = noise(size, 1);
    EXPECT_EQ(read_data_file(folder.write("plain", bytes)), bytes);
    EXPECT_EQ(read_data_file(folder.write("packed", gzipped(bytes))), bytes);
  }
}

TEST(DataFile, MayExpandAThousandfold) {
  const TempFolder folder;
  const std::string bytes(20'000'000, 'x');
  EXPECT_EQ(read_data_file(folder.write("packed", gzipped(bytes))), bytes);
}

TEST(DataFile, MayHoldSeveralGzipMembers) {
  const TempFolder folder;
  EXPECT_EQ(read_data_file(folder.write("x.gz", gzipped("one") + gzipped("") + gzipped("two"))),
            "onetwo");
}

// Every prefix of a gzip file of two bytes and more is cut off somewhere: none may pass.
TEST(DataFile, CutOffAnywhereIsRefused) {
  const TempFolder folder;
  const std::string packed = gzipped(noise(100, 2));
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const std::string path = folder.write("cut.gz", packed.substr(0, size));
    const std::string message = message_of<DataError>([&] { read_data_file(path); });
    ASSERT_THAT(message, AllOf(HasSubstr(path), HasSubstr("cut off"),
                               HasSubstr("byte " + std::to_string(size)), HasSubstr("again")));
  }
}

// Bytes 3 to 9 hold flags, time and system, which carry no data; beyond them every change shows.
TEST(DataFile, DamagedAnywhereIsRefused) {
  const TempFolder folder;
  const std::string packed = gzipped(noise(100, 3));
  for (std::size_t at = 10; at < packed.size(); ++at) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    const std::string path = folder.write("damaged.gz", damaged);
    ASSERT_THAT(message_of<DataError>([&] { read_data_file(path); }), HasSubstr(path)) << at;
  }
}

TEST(DataFile, FollowedByOtherBytesIsRefused) {
  const TempFolder folder;
  const std::string packed = gzipped("some text");
  const std::string path = folder.write("x.gz", packed + "tail");
  EXPECT_THAT(message_of<DataError>([&] { read_data_file(path); }),
              AllOf(HasSubstr(path), HasSubstr("4 bytes"),
                    HasSubstr("byte " + std::to_string(packed.size()))));
}

TEST(DataFile, ThatCannotBeReadNamesPathAndReason) {
  const TempFolder folder;
  const std::string missing = folder / "missing";
  EXPECT_THAT(message_of<DataMissingError>([&] { read_data_file(missing); }),
              AllOf(HasSubstr(missing), HasSubstr("fetch it")));
  EXPECT_THAT(message_of<FileError>([&] { read_data_file(folder.path()); }),
              AllOf(HasSubstr(folder.path()), HasSubstr("folder")));
}

TEST(ContentFingerprint, ChangesWithEveryBitAndWithTheLength) {
  const std::string bytes = noise(75, 4);
  std::set<std::uint64_t> seen = {content_fingerprint(bytes)};
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      EXPECT_TRUE(seen.insert(content_fingerprint(changed)).second);
    }
  }
  EXPECT_TRUE(seen.insert(content_fingerprint(bytes + std::string(1, '\0'))).second);
  EXPECT_TRUE(seen.insert(content_fingerprint(bytes, 1)).second);
  EXPECT_EQ(content_fingerprint(bytes), content_fingerprint(std::string(bytes)));
}

TEST(DataFile, MayNotExpandForEver) {
  const TempFolder folder;
  const std::string member = gzipped(std::string(20'000'000, 'x'));
  std::string members;
  for (int i = 0; i < 100; ++i) members += member;  // 2 GB
  const std::string bomb = folder.write("bomb.gz", members);
  const std::string message = message_of<DataError>([&] { read_data_file(bomb); });
  EXPECT_THAT(message, AllOf(StartsWith(bomb + ": "), HasSubstr("more than real data do"),
                             HasSubstr("gunzip")));
  std::size_t packed = 0, given = 0;
  ASSERT_EQ(std::sscanf(message.c_str() + bomb.size(), ": %zu bytes of gzip have given %zu",
                        &packed, &given),
            2);
  EXPECT_LT(given, std::size_t{1} << 29) << "it stopped soon";
}

TEST(PromisedSize, StopsAStreamThatGoesOnAfterIt) {
  const TempFolder folder;
  const std::string bomb = folder.write("bomb.gz", gzipped(std::string(200'000'000, 'x')));
  std::size_t most = 0;
  const auto promised = [&](std::string_view first) -> std::optional<std::uint64_t> {
    most = std::max(most, first.size());
    return first.size() < 8 ? std::nullopt : std::optional<std::uint64_t>(1000);
  };
  EXPECT_THAT(message_of<DataError>([&] { read_data_file(bomb, promised); }),
              says({bomb, "1000 bytes", "goes on", "fetch the file again"}));
  EXPECT_LE(most, std::size_t{1} << 20);
  const std::string whole = folder.write("whole.gz", gzipped(std::string(1000, 'x')));
  EXPECT_EQ(read_data_file(whole, promised), std::string(1000, 'x'));
}

}  // namespace
}  // namespace attnlab::files_test
