// Products of matrices that lie in cache, with factors rounded to bfloat16: C = A B, or C += A B.
//
// The same panels and tiles as in product-inl.h, of pairs: two neighbours along the depth are one
// number of 32 bits, and VDPBF16PS (AVX-512's BF16) adds both products to a sum in float32. B is
// rounded as it is brought to panels, A a tile of rows at a time. C is not rounded.
//
// A processor with AMX multiplies tiles of 16 rows and 16 pairs from the same panels: 8,192
// multiply-adds an instruction, where VDPBF16PS does 32.
//
// Where a set has no such instruction, the panels are the plain ones.
#include <hwy/highway.h>

#include "framework/base/processor.h"
#include "framework/nn/kernels/product-inl.h"

#if defined(ATTNLAB_ROUNDED_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_ROUNDED_PRODUCT_INL_H_
#undef ATTNLAB_ROUNDED_PRODUCT_INL_H_
#else
#define ATTNLAB_ROUNDED_PRODUCT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3

/// Two numbers of bfloat16, the first in the low half.
using Pair = std::uint32_t;
using PairTag = hn::RebindToUnsigned<Tag<float>>;
using Pairs = hn::Vec<PairTag>;

/// B [depth, columns] in panels of pairs: pair (k, k + 1) of column j is
/// data[panel's begin + k / 2 * width + j]. An odd depth has a zero behind it.
struct RoundedPanels {
  static constexpr std::int64_t kStep = 2;

  Pair* data;
  std::int64_t depth;    ///< rows of B
  std::int64_t row = 0;  ///< the first row that counts, even

  HWY_INLINE Pair* at(std::int64_t column, std::int64_t width) const {
    return data + column * ((depth + 1) / 2) + row / 2 * width;
  }
  HWY_INLINE RoundedPanels from_row(std::int64_t k) const {
    HWY_DASSERT(k % kStep == 0);
    return {data, depth, row + k};
  }
  /// @param j  a multiple of kWide
  HWY_INLINE RoundedPanels from_column(std::int64_t j) const {
    return {data + j * ((depth + 1) / 2), depth, row};
  }
  HWY_INLINE RoundedPanels fixed() const { return *this; }
};

// Highway 1.0.3 does not compile to these two instructions.

/// sums + the two products of each lane's pairs.
HWY_INLINE Vec<float> add_products(Pairs a, Pairs b, Vec<float> sums) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(a.raw), "v"(b.raw));
  return sums;
}

using Halves = hn::Rebind<std::uint16_t, Tag<float>>;

/// To the nearest, ties to even; NaN stays, numbers below the smallest normal one become zero.
HWY_INLINE hn::Vec<Halves> to_bfloat16(Vec<float> x) {
  hn::Vec<Halves> halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves.raw) : "v"(x.raw));
  return halves;
}

HWY_INLINE Pairs pair_up(Vec<float> first, Vec<float> second) {
  const PairTag d;
  return hn::Or(hn::PromoteTo(d, to_bfloat16(first)),
                hn::ShiftLeft<16>(hn::PromoteTo(d, to_bfloat16(second))));
}

/// What is rounded of A at a time, numbers of a row: a tile of it stays in the first level of
/// cache.
inline constexpr std::int64_t kDepthPart = 512;

/// From one row of pairs to the next: no power of two, so that rows do not share lines of cache.
inline constexpr std::int64_t kPairRow = kDepthPart / 2 + kLanes<float>;

/// Pairs of a tile of A, by rows or by pairs.
inline constexpr std::int64_t kTilePairs = kTileRows * kPairRow;
static_assert(kTilePairs >= (kDepthPart / 2 - 1) * kTileRows + kLanes<float>);
static_assert(kTileRows <= kLanes<float>);

/// Rows of A, rounded: pair p of row r is data[r * row + p * pair].
struct RoundedRows {
  const Pair* data;
  std::int64_t row, pair;
};

/// A row of neighbours, rounded; what is left of the last vector is zero.
HWY_INLINE void round_row(const float* x, std::int64_t n, float factor, Pair* to) {
  each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    hn::StoreU(to_bfloat16(hn::Mul(load(x + i, part), all(factor))), Halves(),
               reinterpret_cast<std::uint16_t*>(to) + i);
  });
}

/// @param a     its numbers are neighbours along rows or along columns
/// @param rows  at most kTileRows
/// @param room  of kTilePairs
HWY_INLINE RoundedRows round_rows(Matrix<const float> a, std::int64_t rows, std::int64_t depth,
                                  Pair* room) {
  if (a.column == 1) {
    for (std::int64_t r = 0; r < rows; ++r) round_row(a.at(r, 0), depth, 1, room + r * kPairRow);
    return {room, kPairRow, 1};
  }
  const Part part{rows};
  for (std::int64_t k = 0; k < depth; k += 2) {  // each overwrites what the one before has too much
    const Vec<float> second = k + 1 < depth ? load(a.at(0, k + 1), part) : zeros<float>();
    hn::StoreU(pair_up(load(a.at(0, k), part), second), PairTag(), room + k / 2 * kTileRows);
  }
  return {room, 1, kTileRows};
}

/// @param b  a panel of `vectors` vectors
template <int rows, int vectors>
HWY_INLINE void multiply_rounded_tile(RoundedRows a, const Pair* b, std::int64_t pairs,
                                      Matrix<float> c, Columns<float, vectors> columns, bool add) {
  constexpr std::int64_t N = kLanes<float>;
  const PairTag d;
  Vec<float> sums[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = add ? columns.load_from(c.data + r * c.row, v) : zeros<float>();
    }
  }
  constexpr int kGroups = (rows + 2) / 3;  // three rows a pointer, as in product-inl.h
  const Pair* group[kGroups];
  for (int g = 0; g < kGroups; ++g) group[g] = a.data + 3 * g * a.row;
  for (std::int64_t p = 0; p < pairs; ++p) {
    Pairs x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = hn::LoadU(d, b + v * N);
    b += vectors * N;
    for (int r = 0; r < rows; ++r) {
      const Pairs factor = hn::Set(d, group[r / 3][r % 3 * a.row]);
      for (int v = 0; v < vectors; ++v) sums[r][v] = add_products(factor, x[v], sums[r][v]);
    }
    for (int g = 0; g < kGroups; ++g) group[g] += a.pair;
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) columns.store_to(sums[r][v], c.data + r * c.row, v);
  }
}

/// A tile's rows of all columns.
template <int rows>
HWY_NOINLINE void multiply_rounded_rows(RoundedRows a, RoundedPanels b, Matrix<float> c,
                                        std::int64_t pairs, std::int64_t columns, bool whole,
                                        bool add) {
  for (std::int64_t j = 0; j < columns; j += kWide<float>) {
    const std::int64_t left = columns - j;
    const Matrix<float> to{c.data + j, c.row};
    if (panel_width<float>(left) == kWide<float>) {
      multiply_rounded_tile<rows, 2>(a, b.at(j, kWide<float>), pairs, to,
                                     {left, whole || left >= kWide<float>}, add);
    } else {
      multiply_rounded_tile<rows, 1>(a, b.at(j, kLanes<float>), pairs, to,
                                     {left, whole || left >= kLanes<float>}, add);
    }
  }
}

// ---- by AMX's tiles, which Highway does not have: 16 rows of 64 bytes each

/// Rows of a tile, and its numbers of 32 bits: sums of C, pairs of A and of B.
inline constexpr std::int64_t kUnit = 16;

/// While one lives, this thread's eight tiles are whole ones.
class TilesInUse {
 public:
  HWY_INLINE TilesInUse() {
    alignas(64) static constexpr struct {
      std::uint8_t palette = 1, start = 0, reserved[14] = {};
      std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } kWholeTiles;
    static_assert(sizeof kWholeTiles == 64);
    asm volatile("ldtilecfg %0" : : "m"(kWholeTiles));
  }
  HWY_INLINE ~TilesInUse() { asm volatile("tilerelease"); }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

// Compilers keep nothing in tiles, so that one statement finds what another left in them.
#define ATTNLAB_LOAD_TILE(tile, from, bytes)                      \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile                 \
               :                                                  \
               : "r"(from), "r"(static_cast<std::int64_t>(bytes)) \
               : "memory")
#define ATTNLAB_STORE_TILE(tile, to, bytes)                     \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)"           \
               :                                                \
               : "r"(to), "r"(static_cast<std::int64_t>(bytes)) \
               : "memory")
#define ATTNLAB_CLEAR_TILE(tile) asm volatile("tilezero %%tmm" #tile : :)
#define ATTNLAB_ADD_PRODUCTS(sums, a, b) \
  asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sums : :)

/// Pairs of two units' rows of A, each row's last unit filled up with zeros.
inline constexpr std::int64_t kUnitsPairs = 2 * kUnit * kPairRow;
static_assert(kDepthPart / 2 % kUnit == 0);

/// @param a     its numbers are neighbours along rows or along columns
/// @param rows  at most two units
/// @param room  of kUnitsPairs
HWY_INLINE void round_units(Matrix<const float> a, std::int64_t rows, std::int64_t depth,
                            Pair* room) {
  const std::int64_t pairs = (depth + 1) / 2, filled = (pairs + kUnit - 1) / kUnit * kUnit;
  if (a.column == 1) {
    for (std::int64_t r = 0; r < rows; ++r) {
      Pair* const row = room + r * kPairRow;
      round_row(a.at(r, 0), depth, 1, row);
      std::fill(row + pairs, row + filled, Pair(0));
    }
    return;
  }
  const hn::FixedTag<Pair, 4> d;
  HWY_ALIGN Pair block[kUnit * kUnit];
  for (std::int64_t first = 0; first < rows; first += kUnit) {
    const Part part{std::min(kUnit, rows - first)};
    for (std::int64_t p = 0; p < filled; p += kUnit) {
      for (std::int64_t i = 0; i < kUnit; ++i) {
        const auto numbers = [&](std::int64_t k) HWY_ATTR {
          return k < depth ? load(a.at(first, k), part) : zeros<float>();
        };
        hn::StoreU(pair_up(numbers(2 * (p + i)), numbers(2 * (p + i) + 1)), PairTag(),
                   block + i * kUnit);
      }
      for (std::int64_t i = 0; i < kUnit; i += 4) {
        for (std::int64_t r = 0; r < kUnit; r += 4) {
          hn::Vec<decltype(d)> quad[4];
          for (int k = 0; k < 4; ++k) quad[k] = hn::LoadU(d, block + (i + k) * kUnit + r);
          transpose(d, quad);
          for (int k = 0; k < 4; ++k) {
            hn::StoreU(quad[k], d, room + (first + r + k) * kPairRow + p + i);
          }
        }
      }
    }
  }
}

/// C (+)= A B of up to two units of rows and a panel of one or two vectors.
/// @param a     of kUnitsPairs
/// @param rows  of C that count; of what stands in A and not in C nothing is kept
template <int vectors>
HWY_NOINLINE void multiply_units(const Pair* a, const Pair* b, std::int64_t pairs, Matrix<float> c,
                                 std::int64_t rows, Columns<float, vectors> columns, bool add) {
  constexpr std::int64_t kBytes = 4, kWidth = vectors * kUnit;
  const bool second = rows > kUnit;
  const bool direct =
      rows % kUnit == 0 && (columns.full || columns.left >= static_cast<std::int64_t>(kWidth));
  HWY_ALIGN float aside[2 * kUnit * kWidth];  // where C has no room for whole tiles
  float* const sums = direct ? c.data : aside;
  const std::int64_t row = (direct ? c.row : kWidth) * kBytes;
  float* const lower = sums + kUnit * (direct ? c.row : kWidth);
  if (add && direct) {
    ATTNLAB_LOAD_TILE(0, sums, row);
    if (vectors > 1) ATTNLAB_LOAD_TILE(1, sums + kUnit, row);
    if (second) ATTNLAB_LOAD_TILE(2, lower, row);
    if (second && vectors > 1) ATTNLAB_LOAD_TILE(3, lower + kUnit, row);
  } else {
    ATTNLAB_CLEAR_TILE(0);
    ATTNLAB_CLEAR_TILE(1);
    ATTNLAB_CLEAR_TILE(2);
    ATTNLAB_CLEAR_TILE(3);
  }
  HWY_ALIGN Pair last[kUnit * kWidth];  // B ends within a unit: zeros stand for the rest
  for (std::int64_t p = 0; p < pairs; p += kUnit, a += kUnit, b += kUnit * kWidth) {
    const Pair* from = b;
    if (pairs - p < kUnit) {
      std::copy_n(b, (pairs - p) * kWidth, last);
      std::fill(last + (pairs - p) * kWidth, last + kUnit * kWidth, Pair(0));
      from = last;
    }
    ATTNLAB_LOAD_TILE(6, from, kWidth * kBytes);
    ATTNLAB_LOAD_TILE(4, a, kPairRow * kBytes);
    ATTNLAB_ADD_PRODUCTS(0, 4, 6);
    if (vectors > 1) {
      ATTNLAB_LOAD_TILE(7, from + kUnit, kWidth * kBytes);
      ATTNLAB_ADD_PRODUCTS(1, 4, 7);
    }
    if (second) {
      ATTNLAB_LOAD_TILE(5, a + kUnit * kPairRow, kPairRow * kBytes);
      ATTNLAB_ADD_PRODUCTS(2, 5, 6);
      if (vectors > 1) ATTNLAB_ADD_PRODUCTS(3, 5, 7);
    }
  }
  ATTNLAB_STORE_TILE(0, sums, row);
  if (vectors > 1) ATTNLAB_STORE_TILE(1, sums + kUnit, row);
  if (second) ATTNLAB_STORE_TILE(2, lower, row);
  if (second && vectors > 1) ATTNLAB_STORE_TILE(3, lower + kUnit, row);
  if (direct) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      const Vec<float> x = load(aside + r * kWidth + v * kUnit, Whole());
      float* const to = c.data + r * c.row;
      if (v * kUnit >= columns.left && !columns.full) continue;
      columns.store_to(add ? hn::Add(columns.load_from(to, v), x) : x, to, v);
    }
  }
}

#undef ATTNLAB_LOAD_TILE
#undef ATTNLAB_STORE_TILE
#undef ATTNLAB_CLEAR_TILE
#undef ATTNLAB_ADD_PRODUCTS

/// Multiply-adds from which tiles pay for being set up.
inline constexpr std::int64_t kLeastForTiles = 16 * 16 * 32;

/// `multiply` by tiles.
template <bool add>
HWY_NOINLINE void multiply_by_tiles(Matrix<const float> a, RoundedPanels b, Matrix<float> c,
                                    std::int64_t rows, std::int64_t depth, std::int64_t columns,
                                    bool whole) {
  HWY_ALIGN Pair room[kUnitsPairs];
  const TilesInUse tiles;
  bool adds = add;
  for (std::int64_t k = 0; k < depth; k += kDepthPart) {
    const std::int64_t deep = std::min(kDepthPart, depth - k), pairs = (deep + 1) / 2;
    const RoundedPanels part = b.from_row(k);
    for (std::int64_t row = 0; row < rows; row += 2 * kUnit) {
      const std::int64_t count = std::min(2 * kUnit, rows - row);
      round_units({a.at(row, k), a.row, a.column}, count, deep, room);
      for (std::int64_t j = 0; j < columns; j += kWide<float>) {
        const std::int64_t left = columns - j;
        const Matrix<float> to{c.at(row, j), c.row};
        if (panel_width<float>(left) == kWide<float>) {
          multiply_units<2>(room, part.at(j, kWide<float>), pairs, to, count,
                            {left, whole || left >= kWide<float>}, adds);
        } else {
          multiply_units<1>(room, part.at(j, kLanes<float>), pairs, to, count,
                            {left, whole || left >= kLanes<float>}, adds);
        }
      }
    }
    adds = true;
  }
}

/// `multiply` by vectors.
template <bool add>
HWY_NOINLINE void multiply_by_vectors(Matrix<const float> a, RoundedPanels b, Matrix<float> c,
                                      std::int64_t rows, std::int64_t depth, std::int64_t columns,
                                      bool whole) {
  HWY_ALIGN Pair room[kTilePairs];
  bool adds = add;
  for (std::int64_t k = 0; k == 0 || k < depth; k += kDepthPart) {
    const std::int64_t deep = std::min(kDepthPart, depth - k), pairs = (deep + 1) / 2;
    const RoundedPanels part = b.from_row(k);
    std::int64_t row = 0;
    const auto tile = [&](auto count) HWY_ATTR {
      constexpr int kRows = decltype(count)::value;
      const Matrix<const float> from{a.at(row, k), a.row, a.column};
      multiply_rounded_rows<kRows>(round_rows(from, kRows, deep, room), part, c.from_row(row),
                                   pairs, columns, whole, adds);
      row += kRows;
    };
    while (rows - row >= kTileRows) tile(std::integral_constant<int, kTileRows>());
    if (rows - row >= 6) tile(std::integral_constant<int, 6>());
    if (rows - row >= 3) tile(std::integral_constant<int, 3>());
    while (row < rows) tile(std::integral_constant<int, 1>());
    adds = true;
  }
}

/// As in product-inl.h.
/// @param a  its numbers are neighbours along rows or along columns
template <bool add = false>
HWY_INLINE void multiply(Matrix<const float> a, RoundedPanels b, Matrix<float> c, std::int64_t rows,
                         std::int64_t depth, std::int64_t columns, bool whole) {
  if (rows * depth * columns >= kLeastForTiles && processor_has_tiles()) {
    multiply_by_tiles<add>(a, b, c, rows, depth, columns, whole);
  } else {
    multiply_by_vectors<add>(a, b, c, rows, depth, columns, whole);
  }
}

/// C += A B, of whole vectors.
HWY_INLINE void add_multiplied(Matrix<const float> a, RoundedPanels b, Matrix<float> c,
                               std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  multiply<true>(a, b, c, rows, depth, columns, true);
}

/// @param ahead  how much of rows is asked for before they are needed
template <int vectors>
HWY_INLINE void pack_rounded_panel(Matrix<const float> x, Pair* to, std::int64_t rows,
                                   const float* factors, std::int64_t ahead,
                                   Columns<float, vectors> columns) {
  for (std::int64_t i = 0; i < rows; i += 2, to += vectors * kLanes<float>) {
    if (ahead > 0) {
      for (std::int64_t r = i + kRowsAhead; r < std::min(i + kRowsAhead + 2, rows); ++r) {
        fetch_row(x, r, ahead);
      }
    }
    for (int v = 0; v < vectors; ++v) {
      const auto numbers = [&](std::int64_t r) HWY_ATTR {
        if (r >= rows) return zeros<float>();
        const Vec<float> row = columns.load_from(x.data + r * x.row, v);
        return factors != nullptr ? hn::Mul(row, all(factors[r])) : row;
      };
      hn::StoreU(pair_up(numbers(i), numbers(i + 1)), PairTag(), to + v * kLanes<float>);
    }
  }
}

/// As in product-inl.h. @param x  numbers of a row are neighbours
inline HWY_NOINLINE void pack(Matrix<const float> x, RoundedPanels y, std::int64_t rows,
                              std::int64_t columns, const float* factors = nullptr) {
  for (std::int64_t j = 0; j < columns; j += kWide<float>) {
    const std::int64_t left = columns - j, width = panel_width<float>(left);
    const std::int64_t ahead = j == 0 ? columns : 0;
    const Matrix<const float> from{x.data + j, x.row};
    if (width == kWide<float>) {
      pack_rounded_panel<2>(from, y.at(j, width), rows, factors, ahead, {left, left >= width});
    } else {
      pack_rounded_panel<1>(from, y.at(j, width), rows, factors, ahead, {left, left >= width});
    }
  }
}

/// Panels of factor x^T. @param x  [columns, depth], numbers of a row are neighbours
inline HWY_NOINLINE void pack_transposed(Matrix<const float> x, RoundedPanels y, std::int64_t depth,
                                         std::int64_t columns, float factor = 1) {
  const hn::FixedTag<Pair, 4> d;
  HWY_ALIGN Pair room[4 * kPairRow];
  for (std::int64_t first = 0; first < columns; first += kWide<float>) {
    const std::int64_t width = panel_width<float>(columns - first);
    for (std::int64_t i = 0; i < width; i += 4) {
      for (std::int64_t r = first + i + kRowsAhead; r < first + i + kRowsAhead + 4; ++r) {
        if (r < columns) fetch_row(x, r, depth);
      }
      for (std::int64_t begin = 0; begin < depth; begin += kDepthPart) {
        const std::int64_t deep = std::min(kDepthPart, depth - begin), pairs = (deep + 1) / 2;
        for (int r = 0; r < 4; ++r) {
          Pair* const row = room + r * kPairRow;
          if (first + i + r < columns) {
            round_row(x.at(first + i + r, begin), deep, factor, row);
          } else {
            std::fill_n(row, pairs, Pair(0));
          }
        }
        Pair* const to = y.at(first, width) + begin / 2 * width + i;
        for (std::int64_t p = 0; p < pairs; p += 4) {
          hn::Vec<decltype(d)> quad[4];
          for (int r = 0; r < 4; ++r) quad[r] = hn::LoadU(d, room + r * kPairRow + p);
          transpose(d, quad);
          for (std::int64_t r = 0; r < std::min<std::int64_t>(4, pairs - p); ++r) {
            hn::StoreU(quad[r], d, to + (p + r) * width);
          }
        }
      }
    }
  }
}

#else

using RoundedPanels = Panels<float>;

#endif

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
