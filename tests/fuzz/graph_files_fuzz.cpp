// Fuzzes the readers of collections of graphs: DGCNN's file, or the files of the TU Dortmund
// collection with "%%" before each but the first. Whatever the bytes, the answer is graphs whose
// edges join nodes that are there, or an error that names a file.
// Code: plugins/datasets/graphs/tudataset/tu_files.cpp
// Code: plugins/datasets/graphs/tudataset/dgcnn_file.cpp
#include "plugins/datasets/graphs/tudataset/graph_files.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

constexpr const char* kParts[] = {
    "A",           "graph_indicator", "graph_labels",    "node_labels", "node_attributes",
    "edge_labels", "edge_attributes", "graph_attributes"};

const MemoryFolder& folder() {
  static const MemoryFolder made;
  return made;
}

GraphFiles read(std::string_view input) {
  if (input.find("%%") == std::string_view::npos) {
    folder().write("G.txt", input);
    return read_dgcnn_file(folder().path(), "G");
  }
  std::string rest(input);
  for (const char* part : kParts) {
    auto [content, others] = halves(rest);
    const std::string name = std::string("G_") + part + ".txt";
    std::filesystem::remove(folder().path() + "/" + name);
    if (!content.empty()) folder().write(name, content);
    rest = others;
  }
  return read_tu_files(folder().path(), "G");
}

void check(const GraphFiles& files) {
  if (files.graphs.empty()) fail("no graphs");
  const auto classes = static_cast<std::int64_t>(files.class_names.size());
  for (const NamedTensors& graph : files.graphs) {
    const Tensor* nodes = graph.find("type@node");
    if (nodes == nullptr) nodes = graph.find("x@node");
    if (nodes == nullptr || nodes->size(0) < 1) fail("a graph without nodes");
    const Tensor& edges = graph.at("edges@edge>node");
    if (edges.numel() > 0 && (edges.min().item<std::int64_t>() < 0 ||
                              edges.max().item<std::int64_t>() >= nodes->size(0))) {
      fail("an edge without a node");
    }
    const Tensor* label = graph.find("class");
    if (label == nullptr) continue;
    const auto value = label->item<std::int64_t>();
    if (value < 0 || value >= classes) fail("a wild class");
  }
}

}  // namespace

Target target() {
  Target target;
  const std::string edges = "1, 2\n2, 1\n3, 4\n", graphs = "1\n1\n2\n2\n";
  target.seeds = {"2\n2 1\n7 1 1\n3 1 0\n1 -1\n7 0\n",
                  "1\n2 5\n0 1 1 0.5 1e3\n0 0 -0.5 nan\n",
                  edges + "%%" + graphs + "%%-1\n1\n",
                  edges + "%%" + graphs +
                      "%%0\n0\n%%7\n3\n7\n9\n%%1.5,2\n0,1\n0,0\n4,4\n%%0\n0\n5\n%%.1\n.2\n.3\n",
                  edges + "%%" + graphs + "%%%%1,2\n1,3\n1,2\n0,0\n%%%%%%%%0.5,1\n1.5,2\n",
                  "1\n1 1\n",
                  "%%",
                  ""};
  target.words = {"%%",
                  "\n",
                  ", ",
                  "0",
                  "-1",
                  "1\n",
                  "2\n",
                  "1 0\n",
                  "nan",
                  "inf",
                  "1e300",
                  "1000000000",
                  "9223372036854775807",
                  "-9223372036854775808",
                  "\x1f\x8b"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  try {
    fuzz::check(fuzz::read({reinterpret_cast<const char*>(data), size}));
    return 0;
  } catch (const Error& error) {
    fuzz::check_names(fuzz::folder().path(), error);
    return -1;
  }
}
