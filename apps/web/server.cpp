#include "apps/web/server.hpp"

#include <algorithm>
#include <cerrno>

#include <boost/asio/executor_work_guard.hpp>

#include "apps/web/connection.hpp"

namespace kinora::web {

namespace asio = boost::asio;
using asio::ip::tcp;
using Problem = boost::system::error_code;

namespace {

// Bytes of the system's buffer for a client: few, so that a slow one is seen soon and many are cheap.
constexpr int kSystemQueue = 256 << 10;

Answer line_of_text(int status, const std::string& why) {
  return {.status = status,
          .type = "text/plain; charset=utf-8",
          .headers = {{"Cache-Control", "no-store"}},
          .body = why + "\n"};
}

// Whether a path is one of the route; its places are then filled.
bool fits(std::string_view route, std::string_view path, std::map<std::string, std::string>& places) {
  std::map<std::string, std::string> found;
  while (!route.empty() || !path.empty()) {
    const auto next = [](std::string_view& rest) {
      const size_t end = std::min(rest.find('/', 1), rest.size());
      const auto segment = rest.substr(0, end);
      rest.remove_prefix(end);
      return segment;
    };
    const auto wanted = next(route), given = next(path);
    if (wanted.size() > 2 && wanted[1] == '{' && given.size() > 1) {
      const auto text = decoded(given.substr(1));
      if (!text) return false;
      found[std::string(wanted.substr(2, wanted.size() - 3))] = *text;
    } else if (wanted != given) {
      return false;
    }
  }
  places = std::move(found);
  return true;
}

}  // namespace

const Route* Server::State::route(Request& request) const {
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  for (const auto& route : routes)
    if (route.method == method && fits(route.path, request.path, request.places)) return &route;
  return nullptr;
}

bool Server::State::has_path(const std::string& path) const {
  std::map<std::string, std::string> places;
  return std::any_of(routes.begin(), routes.end(),
                     [&](const Route& route) { return fits(route.path, path, places); });
}

void Server::State::accept() {
  acceptor.async_accept([this](Problem problem, tcp::socket socket) {
    if (problem == asio::error::operation_aborted || is_ending) return;
    if (!problem) {
      admit(std::move(socket));
      return accept();
    }
    make_room();  // nearly always: no file descriptor is left
    retry.expires_after(std::chrono::milliseconds(50));
    retry.async_wait([this](Problem stopped) {
      if (!stopped) accept();
    });
  });
}

void Server::State::admit(tcp::socket socket) {
  if (open >= limits.connections && !make_room()) return;
  Problem ignored;  // else the body of an answer may wait 40 ms for the acknowledgement of its head
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSystemQueue), ignored);
  begin_connection(*this, std::move(socket));
}

bool Server::State::make_room() {
  const auto& from = waiting.empty() ? owing : waiting;
  if (from.empty()) return false;
  from.front()->close();
  return true;
}

Server::Server(Limits limits) : state_(std::make_unique<State>(limits)) { state_->refuse = line_of_text; }

Server::~Server() {
  for (auto* threads : {&state_->pool, &state_->lookers, &state_->readers}) {
    threads->stop();
    threads->join();
  }
}

void Server::set_headers(Headers headers) { state_->headers = std::move(headers); }
void Server::set_guard(Guard guard) { state_->guard = std::move(guard); }
void Server::set_refuse(Refuse refuse) { state_->refuse = std::move(refuse); }
void Server::set_watch(Watch watch) { state_->watch = std::move(watch); }
void Server::get(std::string path, Handler handler) {
  state_->add({"GET", std::move(path), std::move(handler)});
}
void Server::post(std::string path, Handler handler) {
  state_->add({"POST", std::move(path), std::move(handler)});
}
void Server::upload(std::string path, Handler handler) {
  state_->add({"POST", std::move(path), std::move(handler), true});
}
void Server::remove(std::string path, Handler handler) {
  state_->add({"DELETE", std::move(path), std::move(handler)});
}

void Server::socket(std::string path, OpenSocket open) {
  state_->add({.method = "GET", .path = std::move(path), .handler = {}, .opens = std::move(open)});
}

int Server::bind(int port, const std::string& address) {
  Problem problem;
  auto& a = state_->acceptor;
  const auto here = asio::ip::make_address_v4(address, problem);
  if (!problem) a.open(tcp::v4(), problem);
  // Not SO_REUSEPORT: a second server must not share the port.
  if (!problem) a.set_option(tcp::acceptor::reuse_address(true), problem);
  if (!problem) a.bind({here, static_cast<uint16_t>(port)}, problem);
  if (!problem) a.listen(asio::socket_base::max_listen_connections, problem);
  if (!problem) return a.local_endpoint().port();
  a.close();
  errno = problem.value();
  return 0;
}

void Server::run(const std::function<bool()>& stopped) {
  const auto stays = asio::make_work_guard(state_->io);  // also while no connection is open
  state_->accept();
  while (!stopped()) state_->io.run_for(std::chrono::milliseconds(50));
  state_->acceptor.close();
}

void Server::end(const std::string& last_message) {
  state_->is_ending = true;
  state_->acceptor.close();
  while (state_->make_room()) {
  }
  for (const auto& one : state_->sockets)
    if (const auto socket = one.lock()) {
      socket->text(last_message);
      socket->close("the server ends", true);
    }
}

size_t Server::open_connections() const { return state_->open; }

}  // namespace kinora::web
