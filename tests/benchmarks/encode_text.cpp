// How fast text becomes tokens: MB/s on one core, a JSON line for each unit and round, and in the
// end each unit's median. The time is that of a first opening: the vocabulary is learnt, then
// everything is encoded into a file. A round before the first is not counted.
//
//   attnlab_bench_encode_text [--file FILE] [--megabytes 100] [--rounds 5] [--tokenizer FOLDER]
//                             [--tokens OUT]
//
// With a tokenizer (vocab.json and merges.txt, or tokenizer.json) by byte pairs alone, whose tokens
// are written into OUT, a number a line.
// Without a file the text is made up: 30,000 words, the k-th with a frequency of 1 / (k + 2.7), ten
// a line, as words of natural texts fall off.
#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/data/text/encoded_text.h"

namespace po = boost::program_options;

namespace {

using namespace attnlab;

std::string made_up(std::size_t bytes) {
  Random random(1);
  std::vector<std::string> words(30000);
  for (std::string& word : words) {
    for (std::int64_t left = 1 + random.below(9); left > 0; --left) {
      word += static_cast<char>('a' + random.below(26));
    }
  }
  const double count = static_cast<double>(words.size());
  std::string text;
  for (int in_line = 1; text.size() < bytes; in_line = in_line % 10 + 1) {
    // The inverse of log((k + 2.7) / 2.7) over its value for the last word.
    const double k = 2.7 * (std::pow((count + 2.7) / 2.7, random.uniform()) - 1);
    text += words[std::min(words.size() - 1, static_cast<std::size_t>(k))];
    text += in_line == 10 ? '\n' : ' ';
  }
  return text;
}

/// MB/s of a first opening. @param key  another one each time
double speed_of(const std::string& unit, const std::string& tokenizer, const TextPiece& text,
                const std::string& path, std::uint64_t key, bool tell) {
  const TextSplits texts = {Text{text}, {}, {}};
  const auto begin = std::chrono::steady_clock::now();
  const EncodedText encoded = encode_text(path, key, texts, [&] {
    return tokenizer.empty() ? Vocabulary::learn(texts[0], text_unit(unit), VocabularyRules{})
                             : Vocabulary::byte_pairs(byte_pair_files(tokenizer));
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double size = static_cast<double>(text.text.size()) / 1e6;
  const nlohmann::json line = {{"unit", unit},
                               {"megabytes", size},
                               {"tokens", encoded.splits[0].size()},
                               {"vocabulary", encoded.entries.size()},
                               {"seconds", seconds},
                               {"megabytes_per_second", size / seconds}};
  if (tell) std::cout << line.dump() << std::endl;
  return size / seconds;
}

void write_tokens(const std::string& path, const std::string& tokenizer, const TextPiece& text) {
  const EncodedText encoded =
      encode_text(Vocabulary::byte_pairs(byte_pair_files(tokenizer)), {Text{text}, {}, {}});
  std::string lines;
  for (std::int64_t i = 0; i < encoded.splits[0].size(); ++i) {
    lines += std::to_string(encoded.splits[0][i]) + '\n';
  }
  write_file(path, lines);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t megabytes = 100;
  int rounds = 5;
  std::string file, tokenizer, tokens;
  po::options_description all("attnlab_bench_encode_text");
  all.add_options()("help", "this text")("file", po::value(&file))(
      "megabytes", po::value(&megabytes))("rounds", po::value(&rounds))(
      "tokenizer", po::value(&tokenizer))("tokens", po::value(&tokens));
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, all), values);
  po::notify(values);
  if (values.count("help") > 0) {
    std::cout << all;
    return 0;
  }
  const TextPiece text =
      file.empty() ? text_of("made-up", made_up(megabytes * 1'000'000)) : open_text(file);
  if (!tokens.empty()) write_tokens(tokens, tokenizer, text);
  const ScratchFolder folder;
  std::uint64_t key = 0;
  std::map<std::string, std::vector<double>> speeds;
  std::vector<std::string> units = {"word", "character", "byte"};
  if (!tokenizer.empty()) units = {"byte_pair"};
  for (int round = 0; round <= rounds; ++round) {
    for (const std::string& unit : units) {
      const double speed = speed_of(unit, tokenizer, text, folder.file("text"), ++key, round > 0);
      if (round > 0) speeds[unit].push_back(speed);
    }
  }
  for (const auto& [unit, all] : speeds) {
    const nlohmann::json line = {
        {"unit", unit}, {"rounds", rounds}, {"median_megabytes_per_second", median(all)}};
    std::cout << line.dump() << std::endl;
  }
}
