#include "framework/base/printable_stream.h"

#include <algorithm>
#include <string_view>

#include "framework/base/foreign_text.h"

namespace attnlab {
namespace {

/// Bytes at a text's end that begin a character whose rest may come yet.
std::size_t begun_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // within a character
    const std::size_t size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return size > back ? back : 0;
  }
  return 0;
}

}  // namespace

PrintableStream::PrintableStream(std::ostream& stream)
    : stream_(stream), below_(stream.rdbuf(this)) {}

PrintableStream::~PrintableStream() {
  std::ios_base::iostate state = stream_.rdstate();
  if (!hand_on(held_)) state |= std::ios_base::badbit;
  stream_.rdbuf(below_);  // forgets the state
  stream_.setstate(state);
}

std::streamsize PrintableStream::xsputn(const char* text, std::streamsize size) {
  const std::lock_guard lock(mutex_);
  held_.append(text, static_cast<std::size_t>(size));
  std::size_t whole = held_.size() - begun_bytes(held_);
  if (held_.ends_with('\r')) --whole;  // of a line's end, or not
  const std::string ready = held_.substr(0, whole);
  held_.erase(0, whole);
  return hand_on(ready) ? size : 0;
}

PrintableStream::int_type PrintableStream::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) {
    return traits_type::not_eof(character);
  }
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

int PrintableStream::sync() {
  const std::lock_guard lock(mutex_);
  return below_->pubsync();
}

bool PrintableStream::hand_on(const std::string& text) {
  std::string clean;
  const std::string_view all = text;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min({all.find('\t', begin), all.find("\r\n", begin), all.size()});
    clean += printable(all.substr(begin, end - begin));
    if (end < all.size()) clean += all[end];
    begin = end + 1;
  }
  const auto size = static_cast<std::streamsize>(clean.size());
  return below_->sputn(clean.data(), size) == size;
}

}  // namespace attnlab
