// Word swap: some words of each line become "AAA", in inputs and targets alike.
//
//   words     runs of letters, digits and ' - _ * @ `, without ' - _ * @ at their beginning
//   swaps     n = max(floor(rate * words), 1) a line, of words that are not on the list of stop
//             words (compared as they are written: "The" is not on it) and not "AAA" yet
//   the last  of the n is drawn among the c words left and "none", each 1 / (c + 1), as the
//   published
//             code's choice has the line before the last swap among its candidates
//
// So a line of one word that may be swapped keeps it in half of all draws, short lines (headings)
// are swapped beyond the rate, and lines without such words stay as they are. Letters and digits
// beyond ASCII are told from signs by Unicode's blocks, Python by each character.
// Source: stefvk/Elliptical-Attention, 5ae39eee, WordAttack (TextAttack's Augmenter with
// fast_augment, StopwordModification and a swap for "AAA"); used by QUEST, section 4.4.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/random.h"

namespace attnlab {

/// A word's place in a line, in bytes.
struct WordPlace {
  std::size_t begin = 0, size = 0;
};

/// The words of a line. @param line  UTF-8
std::vector<WordPlace> swap_words(std::string_view line);

/// NLTK's list of 179 English words, sorted.
std::span<const std::string_view> stop_words();
bool is_stop_word(std::string_view word);

/// A line with some of its words swapped.
std::string swapped(std::string_view line, double rate, Random random);

}  // namespace attnlab
