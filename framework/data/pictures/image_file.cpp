#include "framework/data/pictures/image_file.h"

#include <fmt/format.h>
#include <jpeglib.h>
// behind jpeglib.h, which it needs
#include <jerror.h>

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <utility>

#include "framework/base/files.h"

namespace attnlab {
namespace {

/// A file as messages speak of it.
struct Source {
  std::string path, remedy;

  [[noreturn]] void refuse(const std::string& reason) const {
    throw DataError(fmt::format("{}: {}; {}", path, reason, remedy));
  }
};

/// Warnings of libjpeg behind which it makes pixels up. (Bytes too many before a marker are common
/// and harmless. Codes that do not exist are seen near the end of the data alone, where
/// libjpeg-turbo decodes with care; elsewhere damage shows where data are missing in the end.)
bool is_damage(int code) {
  return code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_JPEG_EOF;
}

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

/// Memory is taken as the header says, and a header may say anything.
void check_size(const Source& source, std::int64_t height, std::int64_t width) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
  if (height <= kMostPixels / std::max<std::int64_t>(width, 1)) return;
  source.refuse(fmt::format("has {} x {} pixels, more than are read; shrink it", height, width));
}

/// Width and height behind "P6"; comments go from # to the line's end. What is too long is cut.
std::pair<std::int64_t, std::int64_t> netpbm_sizes(std::string_view bytes) {
  std::int64_t sizes[2] = {0, 0};
  std::size_t at = 2;
  for (std::int64_t& size : sizes) {
    while (at < bytes.size() && (bytes[at] < '0' || bytes[at] > '9')) {
      at = bytes[at] == '#' ? std::min(bytes.find('\n', at), bytes.size()) : at + 1;
    }
    for (; at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9'; ++at) {
      size = std::min<std::int64_t>(10 * size + (bytes[at] - '0'), std::int64_t{1} << 40);
    }
  }
  return {sizes[0], sizes[1]};
}

/// OpenCV reads many formats more, and asks no header for more than 2^30 pixels.
void check_header(const Source& source, std::string_view bytes) {
  // A whole number of at most four bytes.
  const auto number = [&](std::size_t at, std::size_t count, bool big) {
    std::int64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes[at + (big ? i : count - 1 - i)]);
    }
    return value;
  };
  if (is_jpeg(bytes)) return;  // its size was compared before
  const bool netpbm = bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
                      std::isspace(static_cast<unsigned char>(bytes[2])) != 0;
  // Where a format's reader refuses, OpenCV tries others, and that of DICOM may end the process.
  const bool dicom = bytes.size() >= 132 && bytes.substr(128, 4) == "DICM";
  if (dicom) source.refuse("is not an image of JPEG, PNG, WebP or Netpbm");
  if (bytes.starts_with("\x89PNG\r\n\x1a\n") && bytes.size() >= 24) {
    check_size(source, number(20, 4, true), number(16, 4, true));
  } else if (bytes.starts_with("RIFF") && bytes.size() >= 16 && bytes.substr(8, 4) == "WEBP") {
    // In other chunks than this an image has no more than 16384 x 16384.
    if (bytes.substr(12, 4) == "VP8X" && bytes.size() >= 30) {
      check_size(source, number(27, 3, false) + 1, number(24, 3, false) + 1);
    }
  } else if (netpbm) {
    const auto [width, height] = netpbm_sizes(bytes);
    check_size(source, height, width);
  } else {
    source.refuse("is not an image of JPEG, PNG, WebP or Netpbm");
  }
}

/// Red, green and blue, whatever the file holds.
Pixels decoded_by_opencv(const Source& source, const std::string& bytes) {
  check_header(source, bytes);
  cv::Mat image;
  try {
    const cv::Mat encoded(1, static_cast<int>(bytes.size()), CV_8U,
                          const_cast<char*>(bytes.data()));
    image = cv::imdecode(encoded, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const cv::Exception& error) {
    source.refuse(fmt::format("cannot be decoded ({})", error.err));
  }
  if (image.empty()) source.refuse("cannot be decoded");
  Pixels out(image.rows, image.cols, 3);
  for (int y = 0; y < image.rows; ++y) {
    const std::uint8_t* from = image.ptr(y);
    std::uint8_t* to = out.row(y);
    for (int x = 0; x < image.cols; ++x, from += 3, to += 3) {
      to[0] = from[2];
      to[1] = from[1];
      to[2] = from[0];
    }
  }
  return out;
}

}  // namespace

std::string ending_of(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  std::string ending(dot == name.npos || dot == 0 ? "" : name.substr(dot));
  for (char& letter : ending) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return ending;
}

bool has_picture_ending(std::string_view name) {
  return std::find(kPictureEndings.begin(), kPictureEndings.end(), ending_of(name)) !=
         kPictureEndings.end();
}

/// A JPEG in memory. libjpeg's errors come back by longjmp: nothing that it jumps over may own
/// memory.
class ImageFile::Jpeg {
 public:
  Jpeg(Source source, std::string bytes) : source_(std::move(source)), bytes_(std::move(bytes)) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) {
      auto* self = static_cast<Jpeg*>(info->client_data);
      info->err->format_message(info, self->message_);
      std::longjmp(self->back_, 1);
    };
    errors_.emit_message = [](j_common_ptr info, int level) {
      if (level < 0 && is_damage(info->err->msg_code)) info->err->error_exit(info);
    };
    jpeg_create_decompress(&info_);
    progress_.progress_monitor = [](j_common_ptr info) {
      auto* self = static_cast<Jpeg*>(info->client_data);
      if (self->info_.input_scan_number <= kMostScans) return;
      fmt::format_to_n(self->message_, sizeof message_ - 1, "more than {} scans{}", kMostScans,
                       '\0');
      std::longjmp(self->back_, 1);
    };
    info_.progress = &progress_;
    try {
      guarded([this] {
        jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
        jpeg_read_header(&info_, TRUE);
      });
      check_size(source_, height(), width());
      // Data of the image hold no such pair: where it is missing behind the header (which may hold
      // a whole small picture), the file was cut off, though the part that is asked for may not be.
      const std::size_t header = bytes_.size() - info_.src->bytes_in_buffer;
      if (bytes_.find("\xff\xd9", header) == std::string::npos) source_.refuse("ends too early");
      if (has_four_colours()) check_scans(header);
    } catch (...) {
      jpeg_destroy_decompress(&info_);
      throw;
    }
  }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  std::int64_t height() const { return info_.image_height; }
  std::int64_t width() const { return info_.image_width; }
  bool has_four_colours() const { return info_.num_components > 3; }
  const std::string& bytes() const { return bytes_; }

  /// @param reduction  1, 2, 4 or 8
  Part read(const Box& box, std::int64_t reduction) {
    info_.out_color_space = JCS_RGB;
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(reduction);
    guarded([this] { jpeg_start_decompress(&info_); });
    const Box wanted = reduced(box, reduction);
    // Colours are interpolated between columns: two more on each side are as if all were decoded.
    JDIMENSION left = static_cast<JDIMENSION>(std::max<std::int64_t>(0, wanted.left - 2));
    JDIMENSION width = std::min(static_cast<JDIMENSION>(wanted.left + wanted.width + 2) - left,
                                info_.output_width - left);
    guarded([&] { jpeg_crop_scanline(&info_, &left, &width); });
    Part part{Pixels(wanted.height, width, 3), wanted};
    part.box.top = 0;
    part.box.left = wanted.left - left;
    std::uint8_t* first = part.pixels.row(0);
    guarded([&] {
      if (wanted.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(wanted.top));
      for (std::int64_t y = 0; y < wanted.height; ++y) {
        JSAMPROW row = first + y * std::int64_t{width} * 3;
        jpeg_read_scanlines(&info_, &row, 1);
      }
    });
    return part;
  }

 private:
  /// The same part of the smaller image.
  Box reduced(const Box& box, std::int64_t by) const {
    Box out{box.top / by, box.left / by, (box.height + by / 2) / by, (box.width + by / 2) / by};
    out.height = std::min<std::int64_t>(out.height, info_.output_height - out.top);
    out.width = std::min<std::int64_t>(out.width, info_.output_width - out.left);
    return out;
  }

  /// Each scan goes over the whole image, and a few bytes are one.
  static constexpr int kMostScans = 500;  // usual are ten

  /// For OpenCV, which counts none: also those that may stand behind the image's end.
  void check_scans(std::size_t header) const {
    int scans = 1;
    for (std::size_t at = header; (at = bytes_.find("\xff\xda", at)) != std::string::npos;
         at += 2) {
      if (++scans > kMostScans) {
        source_.refuse(
            fmt::format("has more than {} scans, which no camera or program makes", kMostScans));
      }
    }
  }

  template <class Action>
  void guarded(const Action& action) {
    if (setjmp(back_) != 0) {
      const std::string what = fmt::format("damaged ({})", message_);
      if (info_.err->msg_code != JERR_OUT_OF_MEMORY) source_.refuse(what);
      throw Error(fmt::format("{}: {}", source_.path, message_));
    }
    action();
  }

  Source source_;
  std::string bytes_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_{};
  char message_[JMSG_LENGTH_MAX] = "";
};

ImageFile::ImageFile(const std::string& path, std::string_view remedy) {
  const Source source{path, std::string(remedy)};
  std::string bytes = read_text(path);
  if (is_jpeg(bytes)) {
    jpeg_ = std::make_unique<Jpeg>(source, std::move(bytes));
    if (!jpeg_->has_four_colours()) {
      height_ = jpeg_->height();
      width_ = jpeg_->width();
      return;
    }
    bytes = jpeg_->bytes();
    jpeg_ = nullptr;
  }
  whole_ = decoded_by_opencv(source, bytes);
  height_ = whole_.height;
  width_ = whole_.width;
}

ImageFile::~ImageFile() = default;

ImageFile::Part ImageFile::read(const Box& box, std::int64_t height, std::int64_t width) {
  if (jpeg_ == nullptr) return {std::move(whole_), box};
  std::int64_t reduction = 1;
  while (height > 0 && reduction < 8 && box.height >= 2 * reduction * height &&
         box.width >= 2 * reduction * width) {
    reduction *= 2;
  }
  return jpeg_->read(box, reduction);
}

}  // namespace attnlab
