// Included before everything else when Clang reads our code: by clang-tidy and in preset `fuzz`.
//
// In C++20 libstdc++ 12 marks std::vector constexpr, for which Clang looks into vectors of types
// that LibTorch has only declared so far, and stops. So: std::string as it is (plugins' manifests
// need it constexpr), std::vector as in C++17. A function that <string> has already declared
// constexpr gets another name meanwhile; it is inline, so that linking does not mind (but where
// bits of a std::vector<bool> are filled, which nothing does).
#pragma once

#include <string>

#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 attnlab_fill_a1
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
