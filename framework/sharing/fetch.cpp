#include "framework/sharing/fetch.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/sharing/hash.h"

namespace attnlab::sharing {
namespace {

constexpr long kConnect = 20, kRedirects = 5;  // seconds, count
// Answers of HTTP.
constexpr long kWhole = 200, kPart = 206, kNoSuchPart = 416, kServerFails = 500;

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
  ATTNLAB_CURL(easy_header);
  ATTNLAB_CURL(slist_append);
  ATTNLAB_CURL(slist_free_all);
#undef ATTNLAB_CURL
  const CURLcode started = global_init(CURL_GLOBAL_DEFAULT);
};

const Curl& libcurl() {
  static const Curl curl;
  return curl;
}

/// Adds up what servers send for one file, in one try or in several.
struct Received {
  CURL* handle = nullptr;
  std::string bytes;
  std::int64_t most = 0;       ///< bytes of the file
  std::int64_t in_all = 0;     ///< bytes that came, with those that were of no use
  std::size_t asked_from = 0;  ///< where this try is to go on
  bool begun = false;          ///< this try's first bytes have come
  bool other_part = false;     ///< it is not what follows on what is there
  std::string excess;          ///< of what too much came; empty: of nothing
};

/// A field of the answer to the last request; empty: it has none.
std::string field(CURL* handle, const char* name) {
  curl_header* found = nullptr;
  const bool is_there =
      libcurl().easy_header(handle, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK;
  return is_there ? found->value : "";
}

long status_of(CURL* handle) {
  long status = 0;
  libcurl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

/// Whether what comes now fits behind what is there. A server that does not give parts, or whose
/// file is another one now, sends all of it.
bool begins_well(Received& received) {
  if (status_of(received.handle) != kPart) {
    received.bytes.clear();
    return true;
  }
  return field(received.handle, "Content-Range")
      .starts_with(fmt::format("bytes {}-", received.asked_from));
}

std::size_t receive(char* data, std::size_t size, std::size_t count, void* to) {
  auto* received = static_cast<Received*>(to);
  const std::size_t bytes = size * count;
  if (!std::exchange(received->begun, true) && !begins_well(*received)) {
    received->other_part = true;
    return 0;  // ends the transfer
  }
  received->in_all += static_cast<std::int64_t>(bytes);
  if (static_cast<std::int64_t>(received->bytes.size() + bytes) > received->most) {
    received->excess = fmt::format("is larger than {} bytes", received->most);
  } else if (received->in_all > 2 * received->most) {
    received->excess =
        fmt::format("the server has sent parts of more than {} bytes in all", 2 * received->most);
  }
  if (!received->excess.empty()) return 0;
  received->bytes.append(data, bytes);
  return bytes;
}

/// One file of a server.
class Transfer {
 public:
  Transfer(const std::string& url, std::int64_t most, const Pace& pace)
      : functions_(libcurl()),
        handle_(functions_.easy_init(), functions_.easy_cleanup),
        url_(url),
        pace_(pace) {
    CURL* const curl = handle_.get();
    if (functions_.started != CURLE_OK || curl == nullptr) throw Error("libcurl cannot start");
    received_.handle = curl;
    received_.most = most;
    functions_.easy_setopt(curl, CURLOPT_URL, url.c_str());
    functions_.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    functions_.easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    functions_.easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    functions_.easy_setopt(curl, CURLOPT_MAXREDIRS, kRedirects);
    functions_.easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnect);
    functions_.easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, pace.least);
    functions_.easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, pace.seconds);
    functions_.easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    functions_.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    functions_.easy_setopt(curl, CURLOPT_USERAGENT, "attnlab");
    functions_.easy_setopt(curl, CURLOPT_ERRORBUFFER, words_.data());
    functions_.easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    functions_.easy_setopt(curl, CURLOPT_WRITEDATA, &received_);
  }

  /// @throws FileError.
  std::string fetch(const std::string& sha) {
    fetch_all();
    if (in_parts_ && !sha.empty() && sha256(received_.bytes) != sha) {
      forget();
      fetch_all();
    }
    return std::move(received_.bytes);
  }

 private:
  void fetch_all() {
    for (int tries = 1;; ++tries) {
      const CURLcode result = try_once();
      ++tries_;
      if (result == CURLE_OK && !received_.other_part) return;
      if (!may_go_on(result) || tries >= pace_.tries || left() <= 0) fail(result);
      if (received_.other_part || validator_.empty() || status_of(handle_.get()) == kNoSuchPart) {
        forget();
      }
      const double pause = std::min(pace_.pause * tries, left());
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    }
  }

  CURLcode try_once() {
    words_.fill('\0');
    received_.asked_from = received_.bytes.size();
    received_.begun = received_.other_part = false;
    curl_slist* fields = nullptr;
    const std::string range = fmt::format("{}-", received_.asked_from);
    if (received_.asked_from > 0) {
      in_parts_ = true;
      fields = functions_.slist_append(nullptr, ("If-Range: " + validator_).c_str());
    }
    CURL* const curl = handle_.get();
    functions_.easy_setopt(curl, CURLOPT_HTTPHEADER, fields);
    functions_.easy_setopt(curl, CURLOPT_RANGE, fields == nullptr ? nullptr : range.c_str());
    const double seconds = std::max(left(), 1e-3);
    functions_.easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(std::ceil(seconds * 1000)));
    const CURLcode result = functions_.easy_perform(curl);
    functions_.slist_free_all(fields);
    if (status_of(curl) == kWhole) note_answer();
    return result;
  }

  /// By what the server knows this file again, and how large it is.
  void note_answer() {
    if (!received_.begun) received_.bytes.clear();  // the file is empty now
    validator_ = field(handle_.get(), "ETag");
    if (validator_.starts_with("W/")) validator_.clear();  // of files that are alike, not equal
    if (validator_.empty()) validator_ = field(handle_.get(), "Last-Modified");
    size_ = -1;
    functions_.easy_getinfo(handle_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size_);
  }

  void forget() {
    received_.bytes.clear();
    validator_.clear();
  }

  /// Whether another try may help: the transfer began, and broke off.
  bool may_go_on(CURLcode result) const {
    if (!received_.excess.empty() || received_.in_all == 0) return false;
    switch (result) {
      case CURLE_PARTIAL_FILE:
      case CURLE_RECV_ERROR:
      case CURLE_SEND_ERROR:
      case CURLE_GOT_NOTHING:
      case CURLE_COULDNT_CONNECT:
      case CURLE_OPERATION_TIMEDOUT:
      case CURLE_HTTP2:
      case CURLE_HTTP2_STREAM:
        return true;
      case CURLE_HTTP_RETURNED_ERROR:
        return status_of(handle_.get()) >= kServerFails || status_of(handle_.get()) == kNoSuchPart;
      default:
        return received_.other_part;
    }
  }

  [[noreturn]] void fail(CURLcode result) const {
    const std::string url = shown(url_);
    if (!received_.excess.empty()) throw FileError(fmt::format("{}: {}", url, received_.excess));
    if (result == CURLE_HTTP_RETURNED_ERROR) {
      throw FileError(
          fmt::format("{}: the server answers {}{}", url, status_of(handle_.get()), how_far()));
    }
    std::string reason = words_[0] != '\0' ? words_.data() : functions_.easy_strerror(result);
    if (left() <= 0) reason = fmt::format("it took longer than {:.4g} s", pace_.in_all);
    throw FileError(
        fmt::format("{}: cannot be fetched: {}{}", url, one_line(reason, 200), how_far()));
  }

  /// "; 1000 of 5000 bytes came, in 3 tries", and what to do; empty where nothing came.
  std::string how_far() const {
    if (received_.in_all == 0) return "";
    const std::string of = size_ > 0 ? fmt::format(" of {}", size_) : "";
    return fmt::format(
        "; {}{} bytes came, in {} {}; try again later, or fetch the file with another program and "
        "give its path",
        received_.bytes.size(), of, tries_, tries_ == 1 ? "try" : "tries");
  }

  /// Seconds.
  double left() const { return pace_.in_all - seconds_since(start_); }

  const Curl& functions_;
  std::unique_ptr<CURL, void (*)(CURL*)> handle_;
  std::string url_;
  Pace pace_;
  Received received_;
  std::array<char, CURL_ERROR_SIZE> words_{};
  std::string validator_;
  curl_off_t size_ = -1;
  bool in_parts_ = false;
  int tries_ = 0;
  Clock::time_point start_ = Clock::now();
};

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

std::string fetch(const std::string& from, std::int64_t most, const Pace& pace,
                  const std::string& sha256) {
  if (from.starts_with("http://") || from.starts_with("https://")) {
    return Transfer(from, most, pace).fetch(sha256);
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
