// Who may ask the server: whoever has its token, as `Authorization: Bearer TOKEN` or as the first subprotocol
// `kinora.TOKEN` of a WebSocket, and browsers that opened the page's address /?t=TOKEN, which gives them a cookie.
// /health is for everybody.
#pragma once
#include <string>

#include "apps/web/server.hpp"

namespace kinora::serve {

// Refuses requests without the token or the cookie, and those of pages of other sites. Every answer gets an
// x-request-id. port: the server's, part of the cookie's name.
void guard_with(web::Server& server, const std::string& token, int port);

// Where the page is: "http://127.0.0.1:8000/" with the token.
std::string page_address(const std::string& url, const std::string& token);

}  // namespace kinora::serve
