// What took long is kept: once, by key, and made again where the file is not what it should be.
#include "framework/data/cache.h"

#include <stdlib.h>

#include <chrono>
#include <thread>

#include "framework/base/files.h"
#include "framework/data/formats/safetensors.h"
#include "tests/support/cache_folder.h"
#include "tests/support/data_files.h"

namespace attnlab::cache_test {
namespace {

class Cache : public ::testing::Test {
 protected:
  /// Asks for a value; counts how often it is made.
  Tensor ask(const std::string& key, double value, double worth = 0) {
    return cached(
               "test", key,
               [&] {
                 ++made_;
                 return NamedTensors{{"x", at::full({3}, value)}, {"n", at::arange(2)}};
               },
               worth)
        .at("x");
  }
  std::vector<std::string> files() const { return cache_.files(); }

  testing::CacheFolder cache_;
  const testing::TempFolder& folder_ = cache_.folder();
  int made_ = 0;
};

TEST_F(Cache, GivesWhatWasMadeBefore) {
  EXPECT_TRUE(ask("key", 1).equal(at::full({3}, 1.0)));
  EXPECT_TRUE(ask("key", 2).equal(at::full({3}, 1.0)));
  EXPECT_EQ(made_, 1);
  EXPECT_TRUE(ask("other key", 3).equal(at::full({3}, 3.0)));
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(Cache, KeepsOnlyWhatTookLong) {
  ask("quick", 1, /*worth=*/10);
  EXPECT_TRUE(files().empty());
  cached(
      "test", "slow",
      [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        return NamedTensors{{"x", at::zeros({1})}};
      },
      0.05);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(Cache, MakesAgainWhatIsDamaged) {
  ask("key", 1);
  const std::string path = files().at(0), sound = read_text(path);
  const auto flipped = [&](std::size_t at) {
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  std::vector<std::string> damaged = {"", "x", sound.substr(0, sound.size() / 2),
                                      sound.substr(0, sound.size() - 1), sound + "x"};
  for (std::size_t at = 0; at < sound.size(); at += 3) damaged.push_back(flipped(at));
  damaged.push_back(flipped(sound.size() - 1));
  for (const std::string& bytes : damaged) {
    write_file(path, bytes);
    made_ = 0;
    const Tensor found = ask("key", 5);
    // A flipped bit in the blanks or names of the header may be harmless; what is given never lies.
    EXPECT_TRUE(found.equal(at::full({3}, made_ == 1 ? 5.0 : 1.0)));
    write_file(path, sound);
  }
  write_file(path, sound.substr(0, sound.size() - 1));
  made_ = 0;
  ask("key", 1);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(read_text(path), sound) << "the damaged file was not replaced";
}

TEST_F(Cache, DoesNotTakeAFileOfAnotherKey) {
  ask("key", 1);
  const std::string path = files().at(0);
  TensorFile file = read_safetensors(path);
  file.metadata["key"] = "foreign";
  write_safetensors(path, file);
  EXPECT_TRUE(ask("key", 2).equal(at::full({3}, 2.0)));
  EXPECT_EQ(made_, 2);
}

TEST_F(Cache, WorksWithoutAFolder) {
  folder_.write("file", "");
  ::setenv("XDG_CACHE_HOME", (folder_ / "file").c_str(), 1);  // not a folder: cannot be written
  EXPECT_TRUE(ask("key", 1).equal(at::full({3}, 1.0)));
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::unsetenv("HOME");
  EXPECT_TRUE(ask("key", 2).equal(at::full({3}, 2.0)));
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
  EXPECT_EQ(made_, 2);
}

TEST(ContentOfTensors, ChangesWithNameShapeDtypeAndBytes) {
  const auto content = [](const std::string& name, const Tensor& tensor) {
    return content_of({{name, tensor}});
  };
  const std::uint64_t first = content("x", at::zeros({2, 3}));
  EXPECT_EQ(content("x", at::zeros({2, 3})), first);
  EXPECT_NE(content("y", at::zeros({2, 3})), first);
  EXPECT_NE(content("x", at::zeros({3, 2})), first);
  EXPECT_NE(content("x", at::zeros({2, 3}, at::kInt)), first);
  EXPECT_NE(content("x", at::tensor({0.f, 0.f, 0.f, 0.f, 0.f, 1e-30f}).view({2, 3})), first);
}

}  // namespace
}  // namespace attnlab::cache_test
