// Frames and letters in pictures of red, green and blue. What lies outside is not drawn.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "framework/data/image/pixels.h"

namespace attnlab {

using Colour = std::array<std::uint8_t, 3>;

inline constexpr std::int64_t kLetterWidth = 6;   ///< of size 1, with what stands between letters
inline constexpr std::int64_t kLetterHeight = 7;  ///< of size 1

void fill(Pixels& picture, const Box& box, const Colour& colour);

/// The edge of a box, drawn inside it.
void draw_frame(Pixels& picture, const Box& box, std::int64_t thick, const Colour& colour);

/// A line of letters, shown as capitals; what has no shape here is left empty.
/// @param size  pixels of a letter's dot
void write_text(Pixels& picture, std::int64_t top, std::int64_t left, std::int64_t size,
                const Colour& colour, std::string_view text);

}  // namespace attnlab
