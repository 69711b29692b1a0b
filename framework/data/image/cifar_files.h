// The official binary records of CIFAR-10 and CIFAR-100.
//
//   CIFAR-10   label, 3072 pixels (CHW)                    cifar-10-batches-bin
//   CIFAR-100  coarse label, fine label, 3072 pixels       cifar-100-binary
//
// Source: https://www.cs.toronto.edu/~kriz/cifar.html (Krizhevsky 2009). Classes of CIFAR-100 are
// the fine ones. A part of a set is read where the options say so, and never otherwise. Cost: the
// records are held in memory as they are, 3 KiB an image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/options.h"
#include "framework/data/image/image.h"

namespace attnlab {

/// Which files of which set.
struct CifarFiles {
  std::int64_t classes = 10;
  std::vector<std::int64_t> batches = {1, 2, 3, 4, 5};
  bool partial = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("classes", classes, range(10, 100), "10 or 100: which of the two datasets");
    v("batches", batches, range(1, 5), "CIFAR-10's training files that are read, by number");
    v("partial", partial, "a file may hold fewer images than the published one");
  }
};

/// @param root  the folder or the one above it; empty: the usual places
/// @throws OptionError, DataMissingError, DataError with path, record and byte.
ImageSet read_cifar(const CifarFiles& files, const std::string& root);

}  // namespace attnlab
