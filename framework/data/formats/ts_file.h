// The .ts format of sktime and of the UEA, UCR and TSER archives: series as text, a case a line.
//
//   # a comment                            (% too)
//   @problemName JapaneseVowels
//   @timeStamps false                      true is refused: cases would not be evenly sampled
//   @missing false
//   @univariate false
//   @dimensions 12
//   @equalLength false
//   @seriesLength 29                       where lengths are equal
//   @classLabel true one two three         or @targetLabel true: a number to predict
//   @data
//   1.8,1.9,?:0.2,0.1,0.3:...:one          channels between colons, ? is missing, then the label
//
// Directives come in any order and any case; of those above only @data and one of @classLabel and
// @targetLabel must be there. Lines may end in CRLF, or in blanks. A channel may be empty, and
// channels of one case may differ in length.
// Source: https://www.sktime.net/en/stable/api_reference/file_specifications/ts.html; Bagnall et
// al., The UEA multivariate time series classification archive, 2018 (arXiv:1811.00075).
// Cost: one pass over the text; numbers are read at some hundred MB/s.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

struct TsFile {
  std::string problem;  ///< @problemName; empty where it is not given
  std::int64_t channels = 0;
  std::vector<std::string> classes;  ///< of @classLabel, in the file's order; empty without
  bool has_targets = false;          ///< @targetLabel true

  /// All numbers, channel after channel, case after case; NaN where a value is missing.
  std::vector<float> values;
  /// Channel c of case i is values [offsets[i * channels + c], offsets[i * channels + c + 1]).
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> labels;  ///< an index into `classes` for each case; empty without
  std::vector<double> targets;       ///< a number of float32's range for each case; empty without

  std::int64_t cases() const;
  /// Of one channel of one case.
  std::int64_t length(std::int64_t index, std::int64_t channel) const;
  /// Of a case: that of its longest channel.
  std::int64_t length(std::int64_t index) const;
};

/// @param text  the file's contents.
/// @param path  for messages.
/// @throws DataError "path:line:column: what is wrong; what to do" for whatever the format does
///         not allow, and for what the header and the data say differently.
TsFile parse_ts(std::string_view text, const std::string& path);

/// Reads a file, gzipped or not. @throws FileError, DataError.
TsFile read_ts(const std::string& path);

}  // namespace attnlab
