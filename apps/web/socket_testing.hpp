// A WebSocket client by hand (RFC 6455), for tests of the server.
#pragma once
#include <string>

#include <gtest/gtest.h>

#include "apps/web/client_testing.hpp"

namespace kinora::web {

class SocketClient {
 public:
  enum Kind { kContinued = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };
  struct Frame {
    int kind = -1;  // -1: the connection is over
    std::string bytes{};
  };

  // headers: more of them, each with its end of line.
  explicit SocketClient(int port, const std::string& path, const std::string& headers = "") : client_(port) {
    client_.send("GET " + path +
                 " HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                 "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
                 headers + "\r\n");
    answer_ = client_.receive("\r\n\r\n");
  }
  // The head of the server's answer.
  const std::string& answer() const { return answer_; }

  // False once the server has closed the connection.
  bool send(Kind kind, const std::string& bytes, bool is_last = true) {
    const std::string mask = "\x12\x34\x56\x78";
    std::string out(1, static_cast<char>((is_last ? 0x80 : 0) | kind));
    const auto length = [&](int code, int count) {
      out += static_cast<char>(0x80 | code);
      for (int i = count; i-- > 0;) out += static_cast<char>(bytes.size() >> (8 * i));
    };
    if (bytes.size() < 126)
      length(static_cast<int>(bytes.size()), 0);
    else
      bytes.size() < 65536 ? length(126, 2) : length(127, 8);
    out += mask;
    for (size_t i = 0; i < bytes.size(); ++i) out += static_cast<char>(bytes[i] ^ mask[i % 4]);
    return client_.send(out);
  }
  bool text(const std::string& message) { return send(kText, message); }
  // Sends these bytes as they are.
  bool raw(const std::string& bytes) { return client_.send(bytes); }

  Frame next() {
    const std::string head = client_.receive_bytes(2);
    if (head.size() < 2) return {};
    EXPECT_EQ(head[0] & 0x70, 0) << "no extension was agreed on";
    EXPECT_EQ(head[1] & 0x80, 0) << "a server does not mask";
    size_t size = static_cast<unsigned char>(head[1]);
    if (size >= 126) {
      const std::string length = client_.receive_bytes(size == 126 ? 2 : 8);
      size = 0;
      for (const char c : length) size = size << 8 | static_cast<unsigned char>(c);
    }
    return {head[0] & 0xf, client_.receive_bytes(size)};
  }
  // The code of the server's close, after which it waits for ours; 0: the connection ended without one.
  int close_code() {
    for (Frame frame = next(); frame.kind != -1; frame = next())
      if (frame.kind == kClose && frame.bytes.size() >= 2) {
        send(kClose, frame.bytes.substr(0, 2));
        return static_cast<unsigned char>(frame.bytes[0]) << 8 | static_cast<unsigned char>(frame.bytes[1]);
      }
    return 0;
  }

 private:
  Client client_;
  std::string answer_;
};

}  // namespace kinora::web
