// Which numbers the framework computes.
#pragma once

#include <cstdint>

namespace attnlab {

/// The version of the numbers that the framework computes, raised by hand, as a plugin's version
/// is. Stored results (framework/runs/stored_run.h) stand for runs where it agrees; the hash of the
/// sources (framework_revision()) cannot serve there, for a comment or a moved file changes it.
///
/// Raise it by one, in the commit that does it, when a run of the same configuration, plugins and
/// data gives other numbers than before by more than rounding: another initialisation, order of
/// random numbers or batches, schedule, update, dropout, normalisation, augmentation, another
/// definition of a metric that the framework computes. Do not raise it for what moves last digits
/// alone (another order of a sum, a faster kernel), for what is new and off by default, or for what
/// no run meets (messages, records, a refused configuration). What a plugin computes is told by its
/// own version.
///
/// It costs all stored results: a reference of every domain takes some four and a half hours of two
/// cores. tests/plugins/numbers/ has small runs whose numbers fail when it should have been raised.
///
/// Files without it were stored by an earlier attnlab: kUnknownNumbers, which agrees with none.
inline constexpr std::int64_t kNumbersVersion = 1;
inline constexpr std::int64_t kUnknownNumbers = 0;

}  // namespace attnlab
