// How the server hands a connection over that becomes a WebSocket.
#pragma once
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>

#include "apps/web/server.hpp"

namespace kinora::web {

struct SocketOpening {
  boost::asio::io_context& io;  // its thread owns the connection
  boost::asio::thread_pool& pool;
  const Limits& limits;
  boost::beast::tcp_stream stream;
  boost::beast::http::request<boost::beast::http::empty_body> request;
  Headers headers;                // of the answer
  std::shared_ptr<void> counted;  // lives as long as the connection
};

// Answers the request, then calls open().
void open_socket(SocketOpening opening,
                 std::function<std::shared_ptr<SocketHandler>(std::shared_ptr<Socket>)> open);

}  // namespace kinora::web
