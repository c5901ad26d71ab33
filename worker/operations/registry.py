"""Every operation of the service."""

from hooks.contract import InjectionRequest, InjectionResult, SessionEvent, SessionEventResult
from hooks.contract.capture import CaptureRequest, CaptureResult
from hooks.contract.usage import AnswerReport, AnswerReportResult
from hooks.protocol import wire
from worker.domain.capture import CaptureReading, CaptureReceipt, CaptureWork
from worker.domain.operation import JsonObject, Operation
from worker.domain.receipt import Receipt
from worker.domain.receipt_summary import SummaryPage
from worker.domain.upkeep import UpkeepRun
from worker.ports.evaluations import EvaluationState
from worker.receipts.absence import MemoryExplanation
from worker.receipts.case_models import LabelledCase
from worker.receipts.replay_models import Replay
from worker.receipts.trial_models import PromptText

from . import requests, results

INJECT = Operation(wire.INJECT, InjectionRequest, InjectionResult, queues=True)
SESSION_EVENT = Operation(wire.SESSION_EVENT, SessionEvent, SessionEventResult)
POST_EXECUTION = Operation(wire.POST_EXECUTION, AnswerReport, AnswerReportResult)
HOST_HOOK = Operation(wire.HOST_HOOK, requests.HostHookRequest, JsonObject, queues=True)

REMEMBER = Operation("remember", requests.RememberRequest, results.RememberResult, writes=True, omit_unset=True)
PUT = Operation("put", requests.PutRequest, results.PutResult, writes=True)
UPDATE = Operation("update", requests.UpdateRequest, results.MemoryResult, writes=True)
ADD_CUES = Operation("add_cues", requests.AddCuesRequest, results.AddCuesResult, writes=True)
RELATE = Operation("relate", requests.RelateRequest, results.MemoryResult, writes=True)
FORGET = Operation("forget", requests.ForgetRequest, results.ForgetResult, writes=True)
UNDO = Operation("undo", requests.UndoRequest, results.UndoResult, writes=True)
SHOW = Operation("show", requests.IdRequest, results.MemoryHistory)
EXPORT = Operation("export", requests.ExportRequest, results.MemoryPage)
RECALL = Operation("recall", requests.RecallRequest, results.RecallResult)

CAPTURE = Operation(wire.CAPTURE, CaptureRequest, CaptureResult, writes=True)
CAPTURES = Operation("captures", requests.CapturesRequest, results.CaptureList)
CAPTURE_SHOW = Operation("capture_show", requests.CaptureIdRequest, CaptureReceipt)
CAPTURE_UNDO = Operation("capture_undo", requests.CaptureIdRequest, CaptureReceipt, writes=True)
CAPTURE_READ = Operation("capture_read", CaptureWork, CaptureReading)
CAPTURE_SETTLE = Operation("capture_settle", CaptureReceipt, CaptureReceipt, writes=True)
PROPOSALS = Operation("proposals", requests.ProposalsRequest, results.ProposalList)
PROPOSAL_ACCEPT = Operation("proposal_accept", requests.AcceptRequest, results.AcceptResult, writes=True)
PROPOSAL_REJECT = Operation("proposal_reject", requests.IdRequest, results.RejectResult, writes=True)

UPKEEP = Operation("upkeep", requests.UpkeepRequest, results.UpkeepReport)
UPKEEP_SHOW = Operation("upkeep_show", requests.UpkeepShowRequest, results.UpkeepReport)
UPKEEP_MAKE = Operation("upkeep_make", requests.UpkeepMakeRequest, results.UpkeepMakeResult, writes=True)
UPKEEP_UNDO = Operation("upkeep_undo", requests.IdRequest, UpkeepRun, writes=True)

RECEIPT = Operation("receipt", requests.IdRequest, Receipt)
RECEIPTS = Operation("receipts", requests.ReceiptsRequest, results.ReceiptList)
RECEIPT_PAGE = Operation("receipt_page", requests.ReceiptPageRequest, SummaryPage)
REPLAY = Operation("replay", requests.ReplayReceiptRequest, Replay)
LABEL = Operation("label", requests.LabelRequest, LabelledCase)
KEEP_CASE = Operation("keep_case", requests.LabelRequest, results.KeptCase)
EXPLAIN_MEMORY = Operation("explain_memory", requests.ExplainMemoryRequest, MemoryExplanation)
TRY = Operation("try", requests.TryRequest, results.TryResult)
PROMPT = Operation("prompt", requests.PromptRequest, PromptText)
EVALUATIONS = Operation("evaluations", requests.EvaluationsRequest, results.EvaluationList)
EVALUATION_START = Operation("evaluation_start", requests.EvaluationRequest, EvaluationState)
EVALUATION_STOP = Operation("evaluation_stop", requests.IdRequest, EvaluationState)
USAGE = Operation("usage", requests.UsageRequest, results.UsageList)
SESSION_SHOW = Operation("session_show", requests.SessionRequest, results.SessionResult)

SETTINGS_GET = Operation("settings_get", requests.SettingsRequest, results.SettingsResult, omit_unset=True)
SETTINGS_PATCH = Operation("settings_patch", requests.SettingsPatchRequest, results.SettingsResult, omit_unset=True)
SETTINGS_RESET = Operation("settings_reset", requests.SettingsResetRequest, results.SettingsResult, omit_unset=True)
SETTINGS_HISTORY = Operation("settings_history", requests.SettingsHistoryRequest, results.SettingsHistoryResult)
SETTINGS_UNDO = Operation("settings_undo", requests.SettingsUndoRequest, results.SettingsResult, omit_unset=True)

HEALTH = Operation("health", requests.NoRequest, results.HealthResult)
STORE_INFO = Operation("store_info", requests.NoRequest, results.StoreInfoResult, omit_unset=True)
STORE_JOB_START = Operation("store_job_start", requests.StoreJobRequest, results.StoreJobResult, omit_unset=True)
STORE_JOB_STATUS = Operation("store_job_status", requests.NoRequest, results.StoreJobResult, omit_unset=True)
