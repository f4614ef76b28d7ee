#include "apps/web/connection.hpp"

#include <algorithm>
#include <cerrno>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/file_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

#include "apps/web/full_disk.hpp"
#include "apps/web/websocket.hpp"
#include "kinora/error.hpp"

namespace kinora::web {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Problem = boost::system::error_code;

namespace {

// After a refusal, the rest of a body is read and thrown away: closing at once would make the client's system
// discard the answer.
constexpr std::chrono::seconds kLinger{2};
constexpr size_t kSpare = 4 << 10;                   // of the buffer, beyond the headers
constexpr std::chrono::milliseconds kAskAgain{100};  // for a body that has no more bytes yet

// A part of a body; no bytes: nothing has come yet, or it failed.
struct Part {
  std::optional<std::string> bytes{};
  bool has_failed = false;
};

bool has_no_body(int status) { return status == 304 || status == 204; }

// One connection: request, answer, request, ...
class Session final : public OpenConnection, public std::enable_shared_from_this<Session> {
 public:
  Session(Server::State& state, tcp::socket socket)
      : state_(state),
        stream_(std::move(socket)),
        buffer_(state.limits.header_bytes + kSpare),
        again_(state.io) {
    ++state_.open;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() override {
    stop_waiting();
    --state_.open;
  }

  void wait_for_request() {
    begin_waiting(state_.waiting);
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(state_.limits.header_bytes));
    parser_->body_limit(std::max<uint64_t>(state_.limits.body_bytes, state_.limits.upload_bytes));
    text_.reset();
    file_.reset();
    route_ = nullptr;
    added_.clear();
    request_ = {};
    stream_.expires_after(state_.limits.request);
    http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](Problem problem, size_t) {
      self->stop_waiting();
      if (!self->refused(problem)) self->take_header();
    });
  }

  void close() override {
    stop_waiting();
    stream_.close();
  }

 private:
  // From now on others may need the room.
  void begin_waiting(std::list<OpenConnection*>& list) {
    stop_waiting();
    in_ = &list;
    at_ = list.insert(list.end(), this);
  }
  void stop_waiting() {
    if (in_) in_->erase(at_);
    in_ = nullptr;
  }

  // True if the request cannot be read: the client gets the reason where it has sent anything to answer.
  bool refused(const Problem& problem) {
    if (!problem) return false;
    is_last_ = true;
    if (problem == http::error::header_limit || problem == http::error::buffer_overflow)
      send(state_.refuse(431, "the headers are too long"));
    else if (problem == http::error::body_limit && (discards_ = true))
      send(state_.refuse(413, "the request is too long"));
    else if (file_ && is_disk_full(problem.value()) && (discards_ = true))
      send(state_.refuse(507, "the disk has no room for the upload"));
    else if (problem != http::error::end_of_stream &&
             problem.category() == http::make_error_code(http::error::end_of_stream).category())
      send(state_.refuse(400, "this is not an HTTP request"));
    else
      close();
    return true;
  }

  void take_header() {
    const auto& from = parser_->get();
    request_.method = std::string(from.method_string());
    is_last_ = !parser_->keep_alive();
    const auto target = from.target();
    if (!split_target({target.data(), target.size()}, request_.path, request_.parameters)) {
      is_last_ = true;
      return send(state_.refuse(400, "the address has a damaged escape"));
    }
    for (const auto& field : from) {
      std::string name(field.name_string());
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      if (!request_.headers.emplace(name, std::string(field.value())).second &&
          (name == "host" || name == "origin" || name == "authorization")) {
        is_last_ = true;
        return send(state_.refuse(400, "a header is given twice: " + name));
      }
    }
    request_.owner = [this] { return owner(); };
    request_.is_gone = [this] { return is_gone(); };
    if (state_.guard)
      if (auto no = state_.guard(request_, added_)) return refuse(std::move(*no));
    route_ = state_.route(request_);
    const bool is_done = parser_->is_done();
    if (!route_) {
      Answer none = state_.has_path(request_.path) ? state_.refuse(405, "this address has no such method")
                                                   : state_.refuse(404, "there is nothing here");
      return is_done ? send(std::move(none)) : refuse(std::move(none));
    }
    if (route_->opens) return open();
    if (!is_done && route_->method == "GET")
      return refuse(state_.refuse(400, "a request of this method has no body"));
    if (!open_body()) return;  // which takes the headers from the parser
    const std::string expected = request_.header("expect");
    if (expected.empty() || is_done) return take_body();
    if (!boost::beast::iequals(expected, "100-continue"))
      return refuse(state_.refuse(417, "only 100-continue may be expected"));
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    stream_.expires_after(state_.limits.write);
    asio::async_write(stream_, asio::buffer(out_), [self = shared_from_this()](Problem problem, size_t) {
      problem ? self->close() : self->take_body();
    });
  }

  // From now on a WebSocket has the connection.
  void open() {
    if (!boost::beast::websocket::is_upgrade(parser_->get()))
      return refuse(state_.refuse(426, "this address is a WebSocket"));
    if (buffer_.size() > 0) return refuse(state_.refuse(400, "bytes came before the WebSocket was open"));
    request_.owner = nullptr;
    request_.is_gone = nullptr;
    Headers headers = state_.headers;
    headers.insert(headers.end(), added_.begin(), added_.end());
    if (const std::string offered = request_.header("sec-websocket-protocol"); !offered.empty())
      headers.emplace_back("Sec-WebSocket-Protocol",
                           offered.substr(0, offered.find(',')));  // a browser needs one
    open_socket({state_.io, state_.pool, state_.limits, std::move(stream_), parser_->release(),
                 std::move(headers), shared_from_this()},
                [&state = state_, open = route_->opens, request = request_](std::shared_ptr<Socket> socket) {
                  std::erase_if(state.sockets, [](const auto& one) { return one.expired(); });
                  state.sockets.emplace_back(socket);
                  return open(request, std::move(socket));
                });
  }

  // A client that is refused keeps no connection.
  void refuse(Answer answer) {
    begin_waiting(state_.waiting);
    discards_ = !parser_->is_done();
    is_last_ = true;
    send(std::move(answer));
  }

  // Where the body goes. False: the request is refused.
  bool open_body() {
    const bool uploads = route_ && route_->uploads;
    const uint64_t most = uploads ? state_.limits.upload_bytes : state_.limits.body_bytes;
    if (parser_->content_length().value_or(0) > most) {
      refuse(state_.refuse(413, "the request is too long"));
      return false;
    }
    version_ = parser_->get().version();
    if (!uploads) {
      text_.emplace(std::move(*parser_)).body_limit(most);
      return true;
    }
    try {
      request_.upload = std::make_shared<TemporaryFile>(state_.limits.upload_folder);
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const Error*>(&e);
      refuse(state_.refuse(error && error->code() == KINORA_ERROR_NO_MEMORY ? 507 : 500, e.what()));
      return false;
    }
    file_.emplace(std::move(*parser_)).body_limit(most);
    Problem problem;
    file_->get().body().open(request_.upload->path().c_str(), boost::beast::file_mode::write, problem);
    if (problem)
      refuse(state_.refuse(is_disk_full(problem.value()) ? 507 : 500,
                           "the upload cannot be kept: " + problem.message()));
    return !problem;
  }

  void take_body() {
    if (file_ ? file_->is_done() : text_->is_done())
      return handle();  // a read would wait for the next request
    begin_waiting(state_.owing);
    stream_.expires_after(state_.limits.request);
    if (!file_) {
      http::async_read(stream_, buffer_, *text_, [self = shared_from_this()](Problem problem, size_t) {
        self->stop_waiting();
        if (!self->refused(problem)) self->handle();
      });
      return;
    }
    // Piece by piece: a large upload may take as long as it likes if it does not stand still.
    http::async_read_some(stream_, buffer_, *file_, [self = shared_from_this()](Problem problem, size_t) {
      self->stop_waiting();
      if (self->refused(problem)) return;
      self->file_->is_done() ? self->handle() : self->take_body();
    });
  }

  const std::string& owner() {
    if (owner_) return *owner_;
    Problem none;
    const auto there = stream_.socket().remote_endpoint(none);
    const auto here = none ? there : stream_.socket().local_endpoint(none);
    const auto end = [](const tcp::endpoint& e) { return End{e.address().to_v4().to_uint(), e.port()}; };
    return owner_.emplace(none ? "" : owner_of_client(end(there), end(here)));
  }

  // [any-thread] While a request is handled, nothing else reads.
  bool is_gone() {
    char byte = 0;
    const ssize_t n = recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  }

  void handle() {
    if (file_)
      file_->get().body().close();
    else
      request_.body = std::move(text_->get().body());
    on_pool(
        request_.method == "POST" ? state_.pool : state_.lookers,
        [](Session& self) {
          try {
            return self.route_->handler(self.request_);
          } catch (const std::exception& e) {
            return self.state_.refuse(500, e.what());
          }
        },
        [](Session& self, Answer answer) { self.send(std::move(answer)); });
  }

  // Calls f in a thread of a pool, and take with its result in the thread of run(), in which this object ends too.
  template <class F, class Take>
  void on_pool(asio::thread_pool& pool, F f, Take take) {
    asio::post(pool, [self = shared_from_this(), f, take]() mutable {
      auto result = f(*self);
      auto& io = self->state_.io;
      asio::post(io, [self = std::move(self), take, result = std::move(result)]() mutable {
        take(*self, std::move(result));
      });
    });
  }

  void watch() const { state_.watch(route_ ? route_->path : std::string(), answer_); }

  void send(Answer answer) {
    answer_ = std::move(answer);
    answer_.headers.insert(answer_.headers.begin(), added_.begin(), added_.end());
    watch();
    const bool is_text = !answer_.next, is_head = request_.method == "HEAD";
    if (is_text) answer_.length = answer_.body.size();
    is_chunked_ = !answer_.length && version_ >= 11;
    is_last_ = is_last_ || state_.is_ending || (!answer_.length && !is_chunked_);
    left_ = answer_.length.value_or(UINT64_MAX);
    std::string out = head();
    if (is_head || has_no_body(answer_.status)) {
      answer_.next = nullptr;
    } else if (is_text) {
      out += answer_.body;
    }
    write(std::move(out));
  }

  std::string head() const {
    const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(answer_.status)));
    std::string out = fmt::format("HTTP/1.1 {} {}\r\nConnection: {}\r\n", answer_.status, std::string(reason),
                                  is_last_ ? "close" : "keep-alive");
    if (!answer_.type.empty()) out += "Content-Type: " + answer_.type + "\r\n";
    if (is_chunked_) out += "Transfer-Encoding: chunked\r\n";
    if (answer_.length && !has_no_body(answer_.status))
      out += fmt::format("Content-Length: {}\r\n", *answer_.length);
    for (const Headers* all : {&std::as_const(state_.headers), &std::as_const(answer_.headers)})
      for (const auto& [name, value] : *all) out += name + ": " + value + "\r\n";
    return out + "\r\n";
  }

  void write(std::string bytes) {
    out_ = std::move(bytes);
    stream_.expires_after(state_.limits.write);
    asio::async_write(stream_, asio::buffer(out_), [self = shared_from_this()](Problem problem, size_t) {
      if (problem) return self->lose();
      if (self->answer_.next && self->left_ > 0) return self->make_next();
      self->finish();
    });
  }

  // The client is gone, or takes nothing.
  void lose() {
    answer_.status = 0;
    watch();
    close();
  }

  void make_next() {
    on_pool(
        state_.readers,
        [](Session& self) -> Part {
          try {
            return {.bytes = self.answer_.next()};
          } catch (const std::exception&) {  // the headers are sent: only the end of the connection can tell
            return {.has_failed = true};
          }
        },
        [](Session& self, Part part) {
          if (part.has_failed) return self.close();
          part.bytes ? self.send_next(std::move(*part.bytes)) : self.ask_again();
        });
  }

  void ask_again() {
    if (is_gone()) return lose();  // seen here alone, since nothing is written
    again_.expires_after(kAskAgain);
    again_.async_wait(
        [self = shared_from_this()](Problem stopped) { stopped ? self->close() : self->make_next(); });
  }

  void send_next(std::string part) {
    if (part.empty() && answer_.length) return close();  // the client sees that bytes are missing
    if (part.empty()) {
      answer_.next = nullptr;
      return is_chunked_ ? write("0\r\n\r\n") : finish();
    }
    if (answer_.length) {
      part.resize(std::min<uint64_t>(part.size(), left_));
      left_ -= part.size();
    }
    write(is_chunked_ ? fmt::format("{:x}\r\n", part.size()) + part + "\r\n" : std::move(part));
  }

  void finish() {
    answer_ = {};
    out_.clear();
    if (!is_last_ && !state_.is_ending) return wait_for_request();
    Problem ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (!discards_) return close();
    begin_waiting(state_.waiting);
    stream_.expires_after(kLinger);
    discard();
  }

  // The rest of a body, as much as arrives in time.
  void discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(buffer_.max_size()),
                            [self = shared_from_this()](Problem problem, size_t) {
                              if (problem) return self->close();
                              self->discard();
                            });
  }

  Server::State& state_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  asio::steady_timer again_;
  std::optional<http::request_parser<http::empty_body>>
      parser_;  // of the headers; then one of these goes on:
  std::optional<http::request_parser<http::string_body>> text_;
  std::optional<http::request_parser<http::file_body>> file_;
  unsigned version_ = 11;
  const Route* route_ = nullptr;
  std::list<OpenConnection*>* in_ = nullptr;  // of State; null: it does not wait
  std::list<OpenConnection*>::iterator at_;   // there
  std::optional<std::string> owner_;
  Request request_;
  Headers added_;  // by the guard
  Answer answer_;
  std::string out_;  // is being written
  uint64_t left_ = 0;
  bool is_chunked_ = false, is_last_ = false, discards_ = false;  // the last: the rest of a refused request
};

}  // namespace

void begin_connection(Server::State& state, tcp::socket socket) {
  std::make_shared<Session>(state, std::move(socket))->wait_for_request();
}

}  // namespace kinora::web
