// State that the server and its connections share.
#pragma once
#include <list>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include "apps/web/server.hpp"

namespace kinora::web {

struct Route {
  std::string method, path;
  Handler handler;
  bool uploads = false;
  OpenSocket opens{};  // instead of `handler`
};

class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  virtual void close() = 0;
};

struct Server::State {
  explicit State(const Limits& l) : limits(l), pool(l.threads), lookers(l.threads), readers(l.threads) {}

  Limits limits;
  Headers headers;
  Guard guard;
  Refuse refuse;
  Watch watch = [](const std::string&, const Answer&) {};
  std::vector<Route> routes;  // the first that fits
  size_t open = 0;            // connections
  // waiting: connections that wait for a request or, refused, linger. owing: those whose request's body is still to
  // come. The first make room for others, the second only if there are no first ones. Each list: the longest first.
  std::list<OpenConnection*> waiting, owing;
  std::list<std::weak_ptr<Socket>> sockets;
  bool is_ending = false;         // no further request is taken
  boost::asio::io_context io{1};  // its one thread, that of run(), owns all but what a handler computes
  boost::asio::ip::tcp::acceptor acceptor{io};
  boost::asio::steady_timer retry{io};
  // Threads for POST and WebSockets, whose handlers may wait, for the others, and for the bytes of long answers. Last:
  // they end before what they use.
  boost::asio::thread_pool pool, lookers, readers;

  void accept();
  void admit(boost::asio::ip::tcp::socket socket);
  bool make_room();  // closes the connection that can best be missed; false: all are being answered
  void add(Route route) { routes.push_back(std::move(route)); }
  // The route of the request, which gets its places; null: there is none.
  const Route* route(Request& request) const;
  // Whether there is one for another method.
  bool has_path(const std::string& path) const;
};

// Answers the requests of a connection until it ends. In the thread of run().
void begin_connection(Server::State& state, boost::asio::ip::tcp::socket socket);

}  // namespace kinora::web
