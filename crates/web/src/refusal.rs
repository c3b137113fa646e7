//! Answers other than success, as JSON: `{"error": {"code", "message", "hint"}}`.

use axum::extract::Json;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Answer other than success.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Refusal {
    /// With a status, a word for programs, and a sentence for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into(), hint: None }
    }

    /// A request that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// A request that no page of ours sends.
    pub fn foreign(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, "foreign", message)
    }

    /// There is nothing there.
    pub fn nothing_at(uri: &Uri) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {}", uri.path()))
    }

    /// Not by this method.
    pub fn wrong_method() -> Refusal {
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this path does not take that method")
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message, "hint": self.hint } });
        (self.status, Json(body)).into_response()
    }
}
