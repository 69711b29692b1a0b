// Fetching from servers that do not do what they should.
#include "framework/sharing/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "framework/base/error.h"

namespace attnlab::testing::fetch_test {
namespace {

using ::testing::HasSubstr;

/// Answers one request with these bytes, or a byte now and then, for ever.
class Server {
 public:
  explicit Server(std::string answer, bool drips)
      : answer_(std::move(answer)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, any, size), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    EXPECT_EQ(::getsockname(socket_, any, &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/file";
    thread_ = std::thread([this, drips] { serve(drips); });
  }
  ~Server() {
    done_ = true;
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
    thread_.join();
  }
  const std::string& url() const { return url_; }

 private:
  void serve(bool drips) {
    const int client = ::accept(socket_, nullptr, nullptr);
    char request[4096];
    if (client < 0 || ::recv(client, request, sizeof request, 0) <= 0) return;
    ::send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
    while (drips && !done_ && ::send(client, "x", 1, MSG_NOSIGNAL) == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ::close(client);
  }

  std::string answer_, url_;
  int socket_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

std::string answer_of(const Server& server, std::int64_t most, const sharing::Pace& pace = {}) {
  try {
    return sharing::fetch(server.url(), most, pace);
  } catch (const FileError& error) {
    return error.what();
  }
}

TEST(Fetch, TakesAFileAndNoMoreThanItMay) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole";
  EXPECT_EQ(answer_of(Server(answer, false), 5), "whole");
  EXPECT_THAT(answer_of(Server(answer, false), 4), HasSubstr("is larger than 4 bytes"));
}

TEST(Fetch, ShowsNoPasswords) {
  EXPECT_EQ(sharing::shown("https://user:s3cret@host/a@b"), "https://***@host/a@b");
  EXPECT_EQ(sharing::shown("https://host/a@b"), "https://host/a@b");
  EXPECT_EQ(sharing::shown("/a/folder@home"), "/a/folder@home");
  try {
    sharing::fetch("http://me:s3cret@127.0.0.1:1/x", 10);
    ADD_FAILURE() << "nobody serves there";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("http://***@127.0.0.1:1/x"),
                                               ::testing::Not(HasSubstr("s3cret"))));
  }
}

TEST(Fetch, LeavesAServerThatDrips) {
  const Server server("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", true);
  EXPECT_THAT(answer_of(server, 1'000'000, {1000, 1}), HasSubstr("cannot be fetched"));
}

}  // namespace
}  // namespace attnlab::testing::fetch_test
