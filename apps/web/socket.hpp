// WebSockets (RFC 6455) of the server: what a client sends is bounded in bytes, and so is what waits for it to read.
#pragma once
#include <functional>
#include <memory>
#include <string>

namespace kinora::web {

struct Request;

// A client's end of an open WebSocket. [any-thread] Use it no longer than the server lives.
class Socket {
 public:
  virtual ~Socket() = default;
  // Both queue what they are given. False: the connection is over, or ends now because more than Limits::socket_queue
  // waits.
  virtual bool text(std::string message) = 0;
  // A text and the bytes that it describes, with nothing between them. taken: called in a thread of the handlers when
  // the client's system has room for all of both.
  virtual bool binary(std::string text, std::string bytes, std::function<void()> taken) = 0;
  // Ends the connection after what is queued; what comes later is not sent. is_going: because the server ends.
  virtual void close(const std::string& reason, bool is_going = false) = 0;
};

// Answers a client. Its calls come one at a time, in threads of the server's handlers.
class SocketHandler {
 public:
  virtual ~SocketHandler() = default;
  // A text message. The next one is read when this returns; an exception ends the connection.
  virtual void take(const std::string& message) = 0;
  // The last call: the connection is over.
  virtual void closed() = 0;
};

// Called in the thread of Server::run, so it must be quick.
using OpenSocket =
    std::function<std::shared_ptr<SocketHandler>(const Request& request, std::shared_ptr<Socket> socket)>;

}  // namespace kinora::web
