#include "framework/sharing/fetch.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"

namespace attnlab::sharing {
namespace {

constexpr long kConnect = 20, kRedirects = 5;  // seconds, count

struct Received {
  std::string bytes;
  std::int64_t most = 0;
  bool too_much = false;
};

std::size_t receive(char* data, std::size_t size, std::size_t count, void* to) {
  auto* received = static_cast<Received*>(to);
  const std::size_t bytes = size * count;
  if (static_cast<std::int64_t>(received->bytes.size() + bytes) > received->most) {
    received->too_much = true;
    return 0;  // ends the transfer
  }
  received->bytes.append(data, bytes);
  return bytes;
}

void check_result(const std::string& url, CURLcode result, const Received& received, CURL* handle,
                  const char* words) {
  if (received.too_much) {
    throw FileError(fmt::format("{}: is larger than {} bytes", url, received.most));
  }
  long status = 0;
  ::curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  if (result == CURLE_HTTP_RETURNED_ERROR) {
    throw FileError(fmt::format("{}: the server answers {}", url, status));
  }
  if (result == CURLE_OK) return;
  const std::string reason = words[0] != '\0' ? words : ::curl_easy_strerror(result);
  throw FileError(fmt::format("{}: cannot be fetched: {}", url, one_line(reason, 200)));
}

std::string fetch_url(const std::string& url, std::int64_t most, const Pace& pace) {
  static const CURLcode started = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(::curl_easy_init(), ::curl_easy_cleanup);
  if (started != CURLE_OK || handle == nullptr) throw Error("libcurl cannot start");
  Received received;
  received.most = most;
  char words[CURL_ERROR_SIZE] = {};
  CURL* const curl = handle.get();
  ::curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  ::curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  ::curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  ::curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kRedirects);
  ::curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnect);
  ::curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, pace.least);
  ::curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, pace.seconds);
  ::curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  ::curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(curl, CURLOPT_USERAGENT, "attnlab");
  ::curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
  ::curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
  ::curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received);
  const CURLcode result = ::curl_easy_perform(curl);
  check_result(url, result, received, curl, words);
  return std::move(received.bytes);
}

}  // namespace

bool is_url(const std::string& word) {
  return word.starts_with("http://") || word.starts_with("https://") || word.starts_with("file://");
}

std::string beside(const std::string& place, const std::string& name) {
  return place + (place.ends_with("/") ? "" : "/") + name;
}

std::string fetch(const std::string& from, std::int64_t most, const Pace& pace) {
  if (from.starts_with("http://") || from.starts_with("https://")) {
    return fetch_url(from, most, pace);
  }
  const std::string path = from.starts_with("file://") ? from.substr(7) : from;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && static_cast<std::int64_t>(size) > most) {
    throw FileError(fmt::format("{}: is larger than {} bytes", path, most));
  }
  return read_text(path);
}

}  // namespace attnlab::sharing
