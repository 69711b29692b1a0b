// Colours of classes, for pictures that people look at.
//
//   camvid, cityscapes   those that are published with the data
//   other datasets       those of Pascal VOC: of the numbers 0, 1, ... where the first class is the
//                        background, which is black, else of 1, 2, ...
//
// Source: Badrinarayanan et al., SegNet, 2017, its tutorial; Cordts et al., Cityscapes, CVPR 2016,
// its scripts; Everingham et al., The Pascal VOC Challenge, IJCV 2010, its development kit.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace attnlab {

using ClassColour = std::array<std::uint8_t, 3>;  ///< red, green and blue

/// What has no label, or no answer.
inline constexpr ClassColour kNoClassColour = {255, 255, 255};

/// VOC's colour of a number: its bits, one for each channel in turn, the lowest first, become the
/// channels' bits from the highest on.
ClassColour voc_colour(std::uint32_t number);

/// @param dataset  its name (DatasetInfo::name)   @returns as many as there are names.
std::vector<ClassColour> class_colours(const std::string& dataset,
                                       const std::vector<std::string>& class_names);

}  // namespace attnlab
