#include "apps/web/websocket.hpp"

#include <atomic>
#include <deque>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>

namespace kinora::web {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using Problem = boost::system::error_code;

namespace {

constexpr std::chrono::seconds kHandshake{5};  // for the opening and for the close
constexpr size_t kLongestReason = 120;         // RFC 6455: 123 bytes

struct Message {
  std::string bytes;
  bool is_text = true;
  std::function<void()> taken{};
};

class Connection;

// The connection for other threads. They never own it, so that it ends in its own thread.
class Handle final : public Socket {
 public:
  Handle(asio::io_context& io, size_t most, std::weak_ptr<Connection> connection)
      : io_(io), most_(most), connection_(std::move(connection)) {}
  bool text(std::string message) override { return send({{.bytes = std::move(message)}}); }
  bool binary(std::string text, std::string bytes, std::function<void()> taken) override {
    return send({{.bytes = std::move(text)},
                 {.bytes = std::move(bytes), .is_text = false, .taken = std::move(taken)}});
  }
  void close(const std::string& reason, bool is_going) override;
  void note_written(size_t bytes) { queued_ -= bytes; }
  void note_end() { is_over_ = true; }

 private:
  bool send(std::vector<Message> messages);
  // Calls f with the connection in its thread.
  template <class F>
  void with_connection(F f);

  asio::io_context& io_;
  const size_t most_;
  const std::weak_ptr<Connection> connection_;
  std::atomic<size_t> queued_{0};
  std::atomic<bool> is_over_{false};
};

// [one thread] At most one write is in flight, and one read or one call of the handler.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(SocketOpening opening)
      : io_(opening.io),
        pool_(opening.pool),
        limits_(opening.limits),
        counted_(std::move(opening.counted)),
        request_(std::move(opening.request)),
        stream_(std::move(opening.stream)),
        first_(io_) {
    beast::get_lowest_layer(stream_).expires_never();  // the stream has timers of its own
    stream_.set_option(websocket::stream_base::timeout{websocket::stream_base::none(), limits_.socket_idle, true});
    stream_.set_option(websocket::stream_base::decorator(
        [headers = std::move(opening.headers)](websocket::response_type& answer) {
          for (const auto& [name, value] : headers) answer.insert(name, value);
        }));
    stream_.read_message_max(limits_.socket_message);
    stream_.auto_fragment(false);
  }

  void accept(std::function<std::shared_ptr<SocketHandler>(std::shared_ptr<Socket>)> open) {
    drop_after(kHandshake);
    stream_.async_accept(request_, [self = shared_from_this(), open = std::move(open)](Problem problem) {
      if (!problem) self->begin(open);
    });
  }

  void add(Message message) {
    if (is_closing_) return;
    queue_.push_back(std::move(message));
    write();
  }
  void close_after_queue(websocket::close_code code, const std::string& reason) {
    is_closing_ = true;
    code_ = code;
    reason_ = reason.substr(0, kLongestReason);
    write();
  }
  // The pending read, or the next one, sees it.
  void drop() { beast::get_lowest_layer(stream_).close(); }

 private:
  // In place of the stream's own timer, which must not end a close while a read waits for it (Boost 1.74 asserts).
  void drop_after(std::chrono::seconds time) {
    first_.expires_after(time);
    first_.async_wait([weak = weak_from_this()](Problem stopped) {
      if (const auto self = weak.lock(); self && !stopped) self->drop();
    });
  }

  void begin(const std::function<std::shared_ptr<SocketHandler>(std::shared_ptr<Socket>)>& open) {
    handle_ = std::make_shared<Handle>(io_, limits_.socket_queue, weak_from_this());
    handler_ = open(handle_);
    first_.expires_after(limits_.socket_first);
    first_.async_wait([weak = weak_from_this()](Problem stopped) {
      if (const auto self = weak.lock(); self && !stopped)
        self->shut(websocket::close_code::policy_error, "no message came in time");
    });
    read();
  }

  void read() {
    stream_.async_read(buffer_, [self = shared_from_this()](Problem problem, size_t) {
      problem ? self->end() : self->take();
    });
  }

  void take() {
    if (!is_shut_) first_.cancel();
    const std::string message = beast::buffers_to_string(buffer_.data());
    buffer_.consume(buffer_.size());
    if (!stream_.got_text()) {
      shut(websocket::close_code::unknown_data, "expected messages of text");
      return read();
    }
    asio::post(pool_, [self = shared_from_this(), message]() mutable {
      try {
        self->handler_->take(message);
      } catch (const std::exception& e) {
        self->handle_->close(e.what(), false);
      }
      auto& io = self->io_;
      asio::post(io, [self = std::move(self)] { self->read(); });
    });
  }

  void write() {
    if (is_writing_ || is_shut_) return;
    if (queue_.empty()) {
      if (is_closing_) shut(code_, reason_);
      return;
    }
    is_writing_ = true;
    stream_.text(queue_.front().is_text);
    stream_.async_write(asio::buffer(queue_.front().bytes),
                        [self = shared_from_this()](Problem problem, size_t) {
                          self->is_writing_ = false;
                          if (problem) return self->drop();
                          const Message written = std::move(self->queue_.front());
                          self->queue_.pop_front();
                          self->handle_->note_written(written.bytes.size());
                          if (written.taken) asio::post(self->pool_, written.taken);
                          self->write();
                        });
  }

  void shut(websocket::close_code code, const std::string& reason) {
    if (is_shut_) return;
    is_shut_ = true;
    drop_after(kHandshake);
    stream_.async_close({code, reason}, [self = shared_from_this()](Problem) { self->drop(); });
  }

  void end() {
    first_.cancel();
    handle_->note_end();
    drop();
    asio::post(pool_, [handler = std::move(handler_)] { handler->closed(); });
  }

  asio::io_context& io_;
  asio::thread_pool& pool_;
  const Limits& limits_;
  const std::shared_ptr<void> counted_;
  const beast::http::request<beast::http::empty_body> request_;
  websocket::stream<beast::tcp_stream> stream_;
  asio::steady_timer first_;  // for the first message
  beast::flat_buffer buffer_;
  std::shared_ptr<Handle> handle_;
  std::shared_ptr<SocketHandler> handler_;
  std::deque<Message> queue_;  // the first is being written
  websocket::close_code code_ = websocket::close_code::normal;
  std::string reason_;
  bool is_writing_ = false, is_closing_ = false, is_shut_ = false;
};

template <class F>
void Handle::with_connection(F f) {
  asio::post(io_, [weak = connection_, f = std::move(f)]() mutable {
    if (const auto connection = weak.lock()) f(*connection);
  });
}

bool Handle::send(std::vector<Message> messages) {
  if (is_over_) return false;
  size_t bytes = 0;
  for (const auto& message : messages) bytes += message.bytes.size();
  if (queued_.fetch_add(bytes) + bytes > most_) {
    is_over_ = true;
    with_connection([](Connection& c) { c.drop(); });
    return false;
  }
  with_connection([messages = std::move(messages)](Connection& c) mutable {
    for (auto& message : messages) c.add(std::move(message));
  });
  return true;
}

void Handle::close(const std::string& reason, bool is_going) {
  const auto code = is_going ? websocket::close_code::going_away : websocket::close_code::normal;
  with_connection([code, reason](Connection& c) { c.close_after_queue(code, reason); });
}

}  // namespace

void open_socket(SocketOpening opening,
                 std::function<std::shared_ptr<SocketHandler>(std::shared_ptr<Socket>)> open) {
  std::make_shared<Connection>(std::move(opening))->accept(std::move(open));
}

}  // namespace kinora::web
