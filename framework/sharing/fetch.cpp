#include "framework/sharing/fetch.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"

namespace attnlab::sharing {
namespace {

constexpr long kConnect = 20, kRedirects = 5;  // seconds, count

template <typename Function>
Function* symbol(void* library, const char* name) {
  auto* const found =
      library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
  if (found == nullptr) throw Error(fmt::format("libcurl cannot be loaded: {}", ::dlerror()));
  return found;
}

/// libcurl's functions. The first transfer loads them: with the thirty libraries that it needs,
/// libcurl takes longer to load than a search in an index takes.
struct Curl {
  void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
#define ATTNLAB_CURL(name) \
  decltype(::curl_##name)* const name = symbol<decltype(::curl_##name)>(library, "curl_" #name)
  ATTNLAB_CURL(global_init);
  ATTNLAB_CURL(easy_init);
  ATTNLAB_CURL(easy_cleanup);
  ATTNLAB_CURL(easy_setopt);
  ATTNLAB_CURL(easy_perform);
  ATTNLAB_CURL(easy_getinfo);
  ATTNLAB_CURL(easy_strerror);
#undef ATTNLAB_CURL
  const CURLcode started = global_init(CURL_GLOBAL_DEFAULT);
};

const Curl& libcurl() {
  static const Curl curl;
  return curl;
}

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

void check_result(const std::string& address, CURLcode result, const Received& received,
                  CURL* handle, const char* words) {
  const std::string url = shown(address);
  if (received.too_much) {
    throw FileError(fmt::format("{}: is larger than {} bytes", url, received.most));
  }
  long status = 0;
  libcurl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  if (result == CURLE_HTTP_RETURNED_ERROR) {
    throw FileError(fmt::format("{}: the server answers {}", url, status));
  }
  if (result == CURLE_OK) return;
  const std::string reason = words[0] != '\0' ? words : libcurl().easy_strerror(result);
  throw FileError(fmt::format("{}: cannot be fetched: {}", url, one_line(reason, 200)));
}

std::string fetch_url(const std::string& url, std::int64_t most, const Pace& pace) {
  const Curl& functions = libcurl();
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(functions.easy_init(),
                                                      functions.easy_cleanup);
  if (functions.started != CURLE_OK || handle == nullptr) throw Error("libcurl cannot start");
  Received received;
  received.most = most;
  char words[CURL_ERROR_SIZE] = {};
  CURL* const curl = handle.get();
  functions.easy_setopt(curl, CURLOPT_URL, url.c_str());
  functions.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  functions.easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  functions.easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  functions.easy_setopt(curl, CURLOPT_MAXREDIRS, kRedirects);
  functions.easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnect);
  functions.easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, pace.least);
  functions.easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, pace.seconds);
  functions.easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  functions.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  functions.easy_setopt(curl, CURLOPT_USERAGENT, "attnlab");
  functions.easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
  functions.easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
  functions.easy_setopt(curl, CURLOPT_WRITEDATA, &received);
  const CURLcode result = functions.easy_perform(curl);
  check_result(url, result, received, curl, words);
  return std::move(received.bytes);
}

}  // namespace

bool is_url(const std::string& word) {
  return word.starts_with("http://") || word.starts_with("https://") || word.starts_with("file://");
}

std::string shown(const std::string& place) {
  const std::size_t scheme = place.find("://");
  if (scheme == std::string::npos) return place;
  const std::size_t host = scheme + 3;
  const std::size_t at = place.substr(0, place.find_first_of("/?#", host)).rfind('@');
  return at == std::string::npos || at < host ? place
                                              : place.substr(0, host) + "***" + place.substr(at);
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
