// Pictures as files, for tests: JPEG by libjpeg, PNG and WebP by OpenCV.
#pragma once

#include <jpeglib.h>

#include <array>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

#include "framework/data/image/pixels.h"

namespace attnlab::testing {

/// Smooth colours with edges, another one for each seed.
inline Pixels photograph(std::int64_t height, std::int64_t width, int seed = 0) {
  Pixels image(height, width, 3);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t edge = (x / 17 + y / 11 + seed) % 3 * 60;
      image.row(y)[3 * x] = static_cast<std::uint8_t>((2 * x + 30 * seed) % 180 + edge / 2);
      image.row(y)[3 * x + 1] = static_cast<std::uint8_t>((3 * y + x) % 170 + edge / 3);
      image.row(y)[3 * x + 2] = static_cast<std::uint8_t>(edge + (x * y / 40) % 100);
    }
  }
  return image;
}

struct JpegForm {
  int across = 2, down = 2;  ///< pixels that share one colour
  bool progressive = false, grey = false;
};

/// A JPEG of rows that lie one after the other.
/// @param settings  called as settings(info), behind libjpeg's defaults
template <class Settings>
std::string jpeg_of_rows(const std::uint8_t* rows, std::int64_t height, std::int64_t width,
                         int colours, J_COLOR_SPACE space, const Settings& settings) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = colours;
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  settings(info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row =
        const_cast<std::uint8_t*>(rows + std::int64_t{info.next_scanline} * width * colours);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string text(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  free(bytes);
  return text;
}

/// Cyan, magenta, yellow and black of one pixel everywhere, inverted as Adobe's programs write
/// them, with Adobe's marker.
inline std::string cmyk_jpeg_of(std::int64_t height, std::int64_t width,
                                const std::array<std::uint8_t, 4>& inverted) {
  std::vector<std::uint8_t> rows;
  for (std::int64_t i = 0; i < height * width; ++i) {
    rows.insert(rows.end(), inverted.begin(), inverted.end());
  }
  return jpeg_of_rows(rows.data(), height, width, 4, JCS_CMYK,
                      [](jpeg_compress_struct& info) { jpeg_set_quality(&info, 100, TRUE); });
}

inline std::string jpeg_of(const Pixels& image, const JpegForm& form = {}) {
  return jpeg_of_rows(image.row(0), image.height, image.width, 3, JCS_RGB,
                      [&](jpeg_compress_struct& info) {
                        if (form.grey) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
                        jpeg_set_quality(&info, 90, TRUE);
                        info.comp_info[0].h_samp_factor = form.grey ? 1 : form.across;
                        info.comp_info[0].v_samp_factor = form.grey ? 1 : form.down;
                        if (form.progressive) jpeg_simple_progression(&info);
                      });
}

/// @param ending  ".png", or ".webp" (lossless)
inline std::string file_of(const Pixels& image, const std::string& ending) {
  cv::Mat mirrored(static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3);
  for (int y = 0; y < mirrored.rows; ++y) {
    for (int x = 0; x < mirrored.cols; ++x) {
      const std::uint8_t* pixel = image.row(y) + 3 * x;
      mirrored.at<cv::Vec3b>(y, x) = {pixel[2], pixel[1], pixel[0]};
    }
  }
  std::vector<std::uint8_t> bytes;
  cv::imencode(ending, mirrored, bytes, {cv::IMWRITE_WEBP_QUALITY, 101});
  return {bytes.begin(), bytes.end()};
}

}  // namespace attnlab::testing
