// A small citation graph in Planetoid's files: 4 + 500 papers of 3 classes and some words, and 3
// that test, the last of them behind a gap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/pickles.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

struct PlanetoidFiles {
  std::string name = "cora";
  std::int32_t columns = 6;  ///< words; paper i has the words i and i + 2
  std::vector<std::int64_t> test = {505, 504, 507};
  std::vector<std::vector<std::int32_t>> test_words = {{0, 5}, {2}, {1, 3, 4}};
  std::vector<std::int32_t> test_classes = {2, 0, 1};  ///< -1: none
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> links = {
      {0, {1, 2}}, {1, {0, 504}}, {504, {505}}, {507, {503}}};

  std::int64_t known() const { return 504; }

  void write(const TempFolder& folder, const std::string& below = "") const {
    using namespace pickles;
    std::vector<std::vector<std::int32_t>> words;
    std::vector<std::int32_t> classes;
    for (std::int32_t i = 0; i < known(); ++i) {
      words.push_back({i % columns, (i + 2) % columns});
      std::sort(words.back().begin(), words.back().end());
      classes.push_back(i % 3);
    }
    const auto one_hot = [](const std::vector<std::int32_t>& rows) {
      std::vector<std::int32_t> values(rows.size() * 3);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] >= 0) values[3 * i + std::size_t(rows[i])] = 1;
      }
      return array("i4", {std::int64_t(rows.size()), 3}, values);
    };
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& [paper, others] : links) {
      std::vector<std::string> items;
      for (const std::int64_t other : others) items.push_back(integer(other));
      entries.emplace_back(integer(paper), list(items));
    }
    std::string index;
    for (const std::int64_t place : test) index += std::to_string(place) + "\n";
    const std::string stem = below + "ind." + name + ".";
    const std::vector<std::vector<std::int32_t>> first_words(words.begin(), words.begin() + 4);
    const std::vector<std::int32_t> first(classes.begin(), classes.begin() + 4);
    folder.write(stem + "x", file(sparse(columns, first_words)));
    folder.write(stem + "allx", file(sparse(columns, words)));
    folder.write(stem + "tx", file(sparse(columns, test_words)));
    folder.write(stem + "y", file(one_hot(first)));
    folder.write(stem + "ally", file(one_hot(classes)));
    folder.write(stem + "ty", file(one_hot(test_classes)));
    folder.write(stem + "graph", file(map(entries)));
    folder.write(stem + "test.index", index);
  }
};

}  // namespace attnlab::testing
