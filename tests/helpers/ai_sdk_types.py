"""The types of the AI SDK's ModelMessages (`ai` 7), as far as they are JSON: the SDK has them in TypeScript only.

`js/test/ai-sdk.test.mjs` holds compressed histories against the SDK's own schema.
"""

from typing import Any, Literal, NotRequired, Union

from typing_extensions import TypedDict

Options = NotRequired[dict[str, dict[str, Any]]]


class Text(TypedDict):
    type: Literal["text"]
    text: str
    providerOptions: Options


class Image(TypedDict):
    type: Literal["image"]
    image: str
    mediaType: NotRequired[str]
    providerOptions: Options


class File(TypedDict):
    type: Literal["file"]
    data: Any
    mediaType: str
    filename: NotRequired[str]
    providerOptions: Options


class Reasoning(TypedDict):
    type: Literal["reasoning"]
    text: str
    providerOptions: Options


class ToolCall(TypedDict):
    type: Literal["tool-call"]
    toolCallId: str
    toolName: str
    input: Any
    providerExecuted: NotRequired[bool]
    providerOptions: Options


class TextOutput(TypedDict):
    type: Literal["text"]
    value: str
    providerOptions: Options


class ErrorTextOutput(TypedDict):
    type: Literal["error-text"]
    value: str
    providerOptions: Options


class JsonOutput(TypedDict):
    type: Literal["json", "error-json"]
    value: Any
    providerOptions: Options


class DeniedOutput(TypedDict):
    type: Literal["execution-denied"]
    reason: NotRequired[str]
    providerOptions: Options


class ContentOutput(TypedDict):
    type: Literal["content"]
    value: list[Text | File]
    providerOptions: Options


class ToolResult(TypedDict):
    type: Literal["tool-result"]
    toolCallId: str
    toolName: str
    output: TextOutput | ErrorTextOutput | JsonOutput | DeniedOutput | ContentOutput
    providerOptions: Options


class ApprovalRequest(TypedDict):
    type: Literal["tool-approval-request"]
    approvalId: str
    toolCallId: str


class ApprovalResponse(TypedDict):
    type: Literal["tool-approval-response"]
    approvalId: str
    approved: bool
    reason: NotRequired[str]


class System(TypedDict):
    role: Literal["system"]
    content: str
    providerOptions: Options


class User(TypedDict):
    role: Literal["user"]
    content: str | list[Text | Image | File]
    providerOptions: Options


class Assistant(TypedDict):
    role: Literal["assistant"]
    content: str | list[Text | File | Reasoning | ToolCall | ToolResult | ApprovalRequest]
    providerOptions: Options


class Tool(TypedDict):
    role: Literal["tool"]
    content: list[ToolResult | ApprovalResponse]
    providerOptions: Options


ModelMessage = Union[System, User, Assistant, Tool]  # noqa: UP007, as the other SDKs write it
