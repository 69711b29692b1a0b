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

/// Cyan, magenta, yellow and black of one pixel everywhere, inverted as Adobe's programs write
/// them.
inline std::string cmyk_jpeg_of(std::int64_t height, std::int64_t width,
                                const std::array<std::uint8_t, 4>& inverted) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 4;
  info.in_color_space = JCS_CMYK;
  jpeg_set_defaults(&info);  // with Adobe's marker
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row;
  for (std::int64_t x = 0; x < width; ++x) row.insert(row.end(), inverted.begin(), inverted.end());
  while (info.next_scanline < info.image_height) {
    JSAMPROW first = row.data();
    jpeg_write_scanlines(&info, &first, 1);
  }
  jpeg_finish_compress(&info);
  std::string text(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  free(bytes);
  return text;
}

inline std::string jpeg_of(const Pixels& image, const JpegForm& form = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  if (form.grey) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  jpeg_set_quality(&info, 90, TRUE);
  info.comp_info[0].h_samp_factor = form.grey ? 1 : form.across;
  info.comp_info[0].v_samp_factor = form.grey ? 1 : form.down;
  if (form.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<std::uint8_t*>(image.row(info.next_scanline));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string text(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  free(bytes);
  return text;
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
