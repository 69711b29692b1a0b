// Published graphs in the files of PyTorch and Python.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "framework/contracts/dataset.h"

namespace attnlab {

/// What graphs take of their file. One that a pickle names again and again costs a few bytes there,
/// and memory here each time.
class ValueBudget {
 public:
  ValueBudget(std::size_t bytes, const std::string& path) : left_(bytes), path_(path) {}

  /// A graph more. @param values  numbers of its arrays, and entries of its map
  void add(std::int64_t values) {
    constexpr std::size_t kGraph = 32;  // bytes that name a graph's arrays, at least
    const std::size_t taken = kGraph + static_cast<std::size_t>(values);
    if (taken > left_) {
      throw DataError(path_ + ": names the same graphs again and again; fetch the file again");
    }
    left_ -= taken;
  }

 private:
  std::size_t left_;
  std::string path_;
};

/// Of training, validation and test.
using SplitGraphs = std::array<std::vector<NamedTensors>, 3>;

/// ZINC of Dwivedi et al.: a list of molecules, each a map with `atom_type` [n], `bond_type` [n, n]
/// (0: no bond) and `logP_SA_cycle_normalized`. Fields type@node, edge_type@edge, labels [1].
/// @param index_path  file of the molecules that are taken, in their order; empty: all
/// @throws DataError with the molecule.
std::vector<NamedTensors> read_zinc(const std::string& path, const std::string& index_path);

/// LRGB's superpixels: a list of (x [n, C], edge_attr [E, D], edge_index [2, E], y [n]). Fields
/// x@node, e@edge, class@node.
/// @param coco  y are COCO's numbers of categories, which have gaps; they become 0 to 80
/// @throws DataError with the graph.
std::vector<NamedTensors> read_superpixels(const std::string& path, bool coco);

/// How many values each column of OGB's features of atoms and bonds has (ogb/utils/features.py).
inline constexpr std::array<std::int64_t, 9> kAtomValues = {119, 5, 12, 12, 10, 6, 6, 2, 2};
inline constexpr std::array<std::int64_t, 3> kBondValues = {5, 6, 2};

/// LRGB's PCQM-Contact: a list of (x [n, 9], edge_attr [E, 3], edge_index [2, E],
/// edge_index_labeled [2, P], edge_label [P]), of one split. Fields atom@node, bond@edge (a
/// column's values behind those of the column before), pairs@pair>node, link@pair.
/// @throws DataError with the graph.
std::vector<NamedTensors> read_contacts(const std::string& path);

/// PyG's files of the GNN benchmark: a list of three splits, each a list of maps with x,
/// edge_index, edge_attr or nothing, y (the graph's class, or one of each node), and of images pos,
/// where each node lies. Fields x@node (columns of pos behind those of x, as GraphGPS has them),
/// e@edge, class or class@node.
/// @throws DataError with the split and the graph.
SplitGraphs read_torch_graphs(const std::string& path);

}  // namespace attnlab
