#include "plugins/datasets/graphs/planetoid/citations.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/data/formats/files.h"
#include "framework/data/formats/lines.h"
#include "framework/data/formats/pickle.h"

namespace attnlab {
namespace {

/// The files of one set.
class Files {
 public:
  Files(const std::string& name, const std::string& root) : prefix_(fmt::format("ind.{}.", name)) {
    DataSearch search{"graphs/planetoid",
                      {},
                      root,
                      "fetch the files from https://github.com/kimiyoung/planetoid (data)"};
    for (const char* part : {"x", "allx", "tx", "y", "ally", "ty", "graph", "test.index"}) {
      search.files.push_back(prefix_ + part);
    }
    folder = find_data_folder(search);
  }

  std::string path(const std::string& part) const {
    return with_or_without_gz(fmt::format("{}/{}{}", folder, prefix_, part));
  }
  /// A file's bytes, which count for the fingerprint.
  std::string read(const std::string& part) {
    std::string bytes = read_data_file(path(part));
    hash = content_fingerprint(bytes, hash);
    return bytes;
  }

  std::string folder;
  std::uint64_t hash = 0;

 private:
  std::string prefix_;
};

/// A sparse matrix of SciPy (rows compressed) as a dense one, [rows, columns] float32.
Tensor matrix_of(Files& files, const std::string& part) {
  const std::string path = files.path(part), bytes = files.read(part);
  const Pickle pickle(bytes, path);
  const PickleValue& state = pickle.root().state();
  const std::int64_t rows = state.entry("_shape").item(0).integer();
  const std::int64_t columns = state.entry("_shape").item(1).integer();
  const Tensor ends = state.entry("indptr").tensor().to(at::kLong).contiguous();
  const Tensor places = state.entry("indices").tensor().to(at::kLong).contiguous();
  const Tensor values = state.entry("data").tensor().to(at::kFloat).contiguous();
  const auto damaged = [&](const std::string& what) {
    return DataError(fmt::format("{}: {}; fetch the file again", path, what));
  };
  // CiteSeer, the largest set, has 12 million; rows without values are not seen by `kSparsest`.
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  if (rows < 1 || columns < 1 || rows > kMost / columns) {
    throw damaged(fmt::format("a matrix of {} x {} is not a set's", rows, columns));
  }
  const auto* end = ends.data_ptr<std::int64_t>();
  const bool whole = ends.numel() == rows + 1 && end[0] == 0 &&
                     std::is_sorted(end, end + rows + 1) && end[rows] == places.numel() &&
                     places.numel() == values.numel();
  if (!whole) throw damaged("the rows of its matrix do not fit its values");
  constexpr std::int64_t kAlways = 1 << 26, kSparsest = 10'000;
  if (rows * columns > kAlways && rows * columns / kSparsest > values.numel() + rows) {
    throw damaged(fmt::format("a matrix of {} x {} with {} values is not a set's", rows, columns,
                              values.numel()));
  }
  const Tensor matrix = at::zeros({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = end[r]; k < end[r + 1]; ++k) {
      const std::int64_t column = places.data_ptr<std::int64_t>()[k];
      if (column < 0 || column >= columns) {
        throw damaged(fmt::format("row {} names column {} of {}", r, column, columns));
      }
      matrix.data_ptr<float>()[r * columns + column] += values.data_ptr<float>()[k];
    }
  }
  return matrix;
}

/// One-hot rows, [rows, classes] int64.
Tensor one_hot_of(Files& files, const std::string& part) {
  const std::string path = files.path(part), bytes = files.read(part);
  const Tensor rows = Pickle(bytes, path).root().tensor().to(at::kLong);
  const bool fits = rows.dim() == 2 && rows.size(1) > 0 && rows.ge(0).all().item<bool>() &&
                    rows.sum(1).le(1).all().item<bool>();
  if (!fits)
    throw DataError(fmt::format("{}: rows are not one-hot classes; fetch the file again", path));
  return rows;
}

/// The class of each one-hot row; -1 where it has none.
Tensor classes_in(Files& files, const Tensor& rows) {
  const Tensor none = rows.sum(1).eq(0);
  // Versions before took them for the first class: where there are some, the data are others.
  if (none.any().item<bool>()) files.hash = content_fingerprint("of no class", files.hash);
  return rows.argmax(1).masked_fill(none, -1);
}

/// The numbers of a text file.
std::vector<std::int64_t> numbers_of(Files& files, const std::string& part) {
  const TextLines text = read_lines(files.path(part));
  files.hash = content_fingerprint(*text.text, files.hash);
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < text.lines.size(); ++i) {
    for (const std::int64_t number : text.integers(i)) numbers.push_back(number);
  }
  return numbers;
}

std::vector<Edge> edges_of(Files& files, std::int64_t nodes) {
  const std::string path = files.path("graph"), bytes = files.read("graph");
  const Pickle pickle(bytes, path);
  std::vector<Edge> edges;
  for (const auto& [paper, others] : pickle.root().entries()) {
    if (edges.size() + std::size_t(others->length()) > bytes.size()) {
      throw DataError(
          fmt::format("{}: names one list of papers again and again; fetch the file "
                      "again",
                      path));
    }
    for (std::int64_t i = 0; i < others->length(); ++i) {
      edges.emplace_back(paper->integer(), others->item(i).integer());
      for (const std::int64_t end : {edges.back().first, edges.back().second}) {
        if (end >= 0 && end < nodes) continue;
        throw DataError(
            fmt::format("{}: the link ({}, {}) names a paper that is not there; papers "
                        "count from 0 to {}",
                        path, edges.back().first, edges.back().second, nodes - 1));
      }
    }
  }
  return undirected(edges);
}

}  // namespace

Citations read_citations(const std::string& name, const std::string& root, bool normalise) {
  Files files(name, root);
  const Tensor all = matrix_of(files, "allx"), test = matrix_of(files, "tx");
  const Tensor all_classes = one_hot_of(files, "ally"), test_classes = one_hot_of(files, "ty");
  Citations set;
  set.training = one_hot_of(files, "y").size(0);
  set.class_count = all_classes.size(1);
  set.test = numbers_of(files, "test.index");
  const std::int64_t known = all.size(0);
  const auto refuse = [&](const std::string& part, const std::string& what) {
    throw DataError(
        fmt::format("{}: {}; the files of a set belong together", files.path(part), what));
  };
  if (all.size(1) != test.size(1)) refuse("tx", "has other words than allx");
  if (all_classes.size(0) != known) refuse("ally", "has other papers than allx");
  if (test_classes.sizes() != at::IntArrayRef({test.size(0), set.class_count})) {
    refuse("ty", "does not fit tx and ally");
  }
  if (set.test.size() != std::size_t(test.size(0))) refuse("test.index", "does not fit tx");
  if (set.training + 500 > known) refuse("y", "has more papers than allx");
  const std::set<std::int64_t> places(set.test.begin(), set.test.end());
  if (places.size() != set.test.size() || *places.begin() < known ||
      *places.rbegin() >= known + 10 * test.size(0)) {
    refuse("test.index", "names a paper twice, or a paper that is not in tx");
  }
  const std::int64_t nodes = *places.rbegin() + 1;
  const Tensor rows = at::tensor(set.test, at::kLong);
  set.words = at::zeros({nodes, all.size(1)});
  set.words.narrow(0, 0, known).copy_(all);
  set.words.index_copy_(0, rows, test);
  if (normalise) set.words.div_(set.words.sum(1, /*keepdim=*/true).clamp_min(1));
  set.classes = at::full({nodes}, -1, at::kLong);
  set.classes.narrow(0, 0, known).copy_(classes_in(files, all_classes));
  set.classes.index_copy_(0, rows, classes_in(files, test_classes));
  set.edges = edges_of(files, nodes);
  set.folder = files.folder;
  set.hash = files.hash;
  return set;
}

}  // namespace attnlab
