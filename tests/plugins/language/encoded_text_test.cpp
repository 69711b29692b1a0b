// Encoded texts: what the file of the cache holds, and what happens to one that is damaged.
#include "framework/data/text/encoded_text.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "framework/base/files.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // GCC 12 has no header of it
#endif

namespace attnlab::encoded_text_test {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

std::vector<std::int64_t> list_of(const TokenSpan& span) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < span.size(); ++i) all.push_back(span[i]);
  return all;
}

class TextCache : public ::testing::Test {
 protected:
  TextCache() : texts{Text{text_of("train", "b a a\n")}, Text{}, Text{text_of("test", "a x\n")}} {}

  EncodedText open(std::uint64_t key = 7) {
    return encode_text(path, key, texts, [this] {
      ++made;
      return Vocabulary::learn(texts[0], TextUnit::word, VocabularyRules{});
    });
  }
  void expect_sound(const EncodedText& encoded) const {
    EXPECT_EQ(encoded.entries, (std::vector<std::string>{"<eos>", "a", "b", "<unk>"}));
    EXPECT_EQ(list_of(encoded.splits[0]), (std::vector<std::int64_t>{2, 1, 1, 0}));
    EXPECT_EQ(encoded.splits[1].size(), 0);
    EXPECT_EQ(list_of(encoded.splits[2]), (std::vector<std::int64_t>{1, 3, 0}));
  }

  TempFolder folder;
  std::string path = folder / "deep/er/text";
  TextSplits texts;
  int made = 0;
};

TEST_F(TextCache, IsMadeOnce) {
  for (int i = 0; i < 3; ++i) expect_sound(open());
  EXPECT_EQ(made, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "deep/er"), {}), 1);
}

TEST_F(TextCache, IsMadeAgainForAnotherKey) {
  open(7);
  expect_sound(open(8));
  expect_sound(open(8));
  EXPECT_EQ(made, 2);
}

TEST_F(TextCache, IsMadeAgainWhereverItIsDamaged) {
  open();
  const std::string sound = read_text(path);
  for (std::size_t at = 0; at < sound.size(); ++at) {
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    folder.write("deep/er/text", bytes);
    made = 0;
    expect_sound(open());
    EXPECT_EQ(made, 1) << "byte " << at;
  }
  for (std::size_t size = 0; size < sound.size(); ++size) {
    folder.write("deep/er/text", sound.substr(0, size));
    made = 0;
    expect_sound(open());
    EXPECT_EQ(made, 1) << size << " bytes";
  }
  folder.write("deep/er/text", sound + "x");
  made = 0;
  expect_sound(open());
  EXPECT_EQ(made, 1);
}

TEST_F(TextCache, StaysOpenWhileItIsReplaced) {
  const EncodedText before = open(7);
  open(8);
  expect_sound(before);
}

TEST_F(TextCache, LosesWhatKilledProcessesLeft) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::string left = "text.tmp-" + std::string(host) + "-" + std::to_string(child);
  folder.write("deep/er/" + left, "half");
  open();
  EXPECT_FALSE(fs::exists(folder / ("deep/er/" + left)));
}

TEST_F(TextCache, SaysWhatKeepsItFromBeingWritten) {
  folder.write("deep", "a file");
  const std::string message = testing::message_of<FileError>([&] { open(); });
  EXPECT_THAT(message, ::testing::HasSubstr(path));
}

TEST_F(TextCache, IsSafeWithManyProcesses) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool sound = true;
      for (int round = 0; round < 20; ++round) {
        path = folder / std::to_string(round);
        const EncodedText encoded = open();
        sound &= list_of(encoded.splits[0]) == std::vector<std::int64_t>{2, 1, 1, 0};
      }
      _exit(sound ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

/// The most memory of its own, in megabytes, that this process comes to hold in `work`. Pages of
/// mapped files do not count: the system takes them back as it needs. (AddressSanitizer keeps what
/// was freed for a while, and says itself what is in use.)
long megabytes_of(const std::function<void()>& work) {
  const auto own = [] {
#if defined(__SANITIZE_ADDRESS__)
    return static_cast<long>(__sanitizer_get_current_allocated_bytes() >> 20);
#else
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("RssAnon:", 0) == 0) return std::stol(line.substr(8)) / 1024;
    }
    return 0L;
#endif
  };
  const long before = own();
  std::atomic<bool> done{false};
  long most = before;
  std::thread watch([&] {
    while (!done) {
      most = std::max(most, own());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  work();
  most = std::max(most, own());
  done = true;
  watch.join();
  return most - before;
}

TEST(EncodedText, NeedsLittleMemoryWhateverTheTextsSize) {
  constexpr long kFile = 96;  // megabytes
  const TempFolder folder;
  const std::string path = folder / "large.txt";
  {
    std::string lines;
    for (int i = 0; i < 20000; ++i) lines += "w" + std::to_string(i % 3000) + " of a line\n";
    std::ofstream file(path);
    while (file.tellp() < kFile << 20) file << lines;
  }
  const auto through_a_file = [&] {
    const TextSplits texts = {Text{open_text(path)}, {}, {}};
    const EncodedText encoded = encode_text(folder / "encoded", 1, texts, [&] {
      return Vocabulary::learn(texts[0], TextUnit::word, VocabularyRules{});
    });
    std::int64_t sum = 0;  // every token is read
    for (std::int64_t i = 0; i < encoded.splits[0].size(); ++i) sum += encoded.splits[0][i];
    return sum > 0;
  };
  const auto in_memory = [&] {
    const TextSplits texts = {Text{open_text(path)}, {}, {}};
    return encode_text(Vocabulary::learn(texts[0], TextUnit::word, VocabularyRules{}), texts)
               .splits[0]
               .size() > 0;
  };
  // In a process of its own, which ends with the megabytes that encoding took.
  const auto cost = [](const auto& encode) {
    bool encoded = false;
    const long most = megabytes_of([&] { encoded = encode(); });
    ::_exit(encoded ? int(std::min(most, 254L)) : 255);
  };
  const auto little = [](int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) < kFile / 4;
  };
  const auto all_tokens = [](int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) >= kFile / 3 && WEXITSTATUS(status) < 255;
  };
  EXPECT_EXIT(cost(through_a_file), little, "");
  EXPECT_EXIT(cost(in_memory), all_tokens, "") << "what tokens in memory cost is not seen";
}

TEST(EncodedText, UsesFourBytesWhereTwoAreTooFew) {
  std::string many;
  for (int i = 0; i < 70000; ++i) many += "w" + std::to_string(i) + (i % 9 == 8 ? "\n" : " ");
  const TextSplits texts = {Text{text_of("train", many)}, {}, {}};
  const auto vocabulary = Vocabulary::learn(texts[0], TextUnit::word, VocabularyRules{});
  EXPECT_EQ(vocabulary.size(), 70002);
  const TokenSpan tokens = encode_text(vocabulary, texts).splits[0];
  ASSERT_EQ(tokens.size(), 70000 + 7778);
  EXPECT_EQ(tokens[0], 1);
  EXPECT_EQ(tokens[tokens.size() - 2], 70000);
}

TEST(EncodedText, IsTheSameInMemoryAndThroughBlocks) {
  // More than one block of the file, and tokens across their borders.
  std::string bytes;
  Random random(3);
  while (bytes.size() < 1500001) bytes += static_cast<char>('a' + random.below(26));
  const TextSplits texts = {Text{text_of("train", bytes)}, Text{text_of("v", "abc")}, {}};
  const auto vocabulary = Vocabulary::learn(texts[0], TextUnit::character, VocabularyRules{});
  const TempFolder folder;
  const EncodedText there = encode_text(folder / "text", 1, texts, [&] {
    return Vocabulary::learn(texts[0], TextUnit::character, VocabularyRules{});
  });
  const EncodedText here = encode_text(vocabulary, texts);
  for (const EncodedText* encoded : {&there, &here}) {
    ASSERT_EQ(encoded->splits[0].size(), std::ssize(bytes));
    bool same = true;
    for (std::int64_t i = 0; i < std::ssize(bytes); ++i) {
      same &= encoded->splits[0][i] == bytes[static_cast<std::size_t>(i)] - 'a';
    }
    EXPECT_TRUE(same);
    EXPECT_EQ(list_of(encoded->splits[1]), (std::vector<std::int64_t>{0, 1, 2}));
  }
}

}  // namespace
}  // namespace attnlab::encoded_text_test
