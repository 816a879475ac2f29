/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_str.c - a MAD's numbers as words, spelt as in rdma-core's libibumad. The first row
 * that matches counts. */
#include <infiniband/umad_str.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/umad_own.h"

enum { ANY = 0, SM_LID = 0x01, SA = 0x03, CM = 0x07, SM_DR = 0x81 };

static const struct {
	uint8_t from, to;
	const char *text;
} classes[] = {
	{ 0x01, 0x01, "Subn" },	       { 0x81, 0x81, "Subn" },
	{ 0x03, 0x03, "SubnAdm" },     { 0x04, 0x04, "Perf" },
	{ 0x05, 0x05, "BM" },	       { 0x06, 0x06, "DevMgt" },
	{ 0x07, 0x07, "ComMgt" },      { 0x08, 0x08, "SNMP" },
	{ 0x10, 0x10, "DevAdm" },      { 0x11, 0x11, "BootMgt" },
	{ 0x12, 0x12, "BIS" },	       { 0x21, 0x21, "CongestionManagment" },
	{ 0x09, 0x0f, "Vendor" },      { 0x30, 0x4f, "Vendor" },
	{ 0x10, 0x2f, "Application" },
};

static const struct row {
	uint8_t class;
	uint16_t value;
	const char *text;
} methods[] = {
	{ SA, 0x12, "GetTable" },
	{ SA, 0x92, "GetTableResp" },
	{ SA, 0x15, "Delete" },
	{ SA, 0x95, "DeleteResp" },
	{ SA, 0x14, "GetMulti" },
	{ SA, 0x94, "GetMultiResp" },
	{ SA, 0x13, "GetTraceTable" },
	{ ANY, 0x01, "Get" },
	{ ANY, 0x02, "Set" },
	{ ANY, 0x81, "GetResp" },
	{ ANY, 0x03, "Send" },
	{ ANY, 0x05, "Trap" },
	{ ANY, 0x06, "Report" },
	{ ANY, 0x86, "ReportResp" },
	{ ANY, 0x07, "TrapRepress" },
}, attrs[] = {
	{ SM_LID, 0x0010, "NodeDescription" },
	{ SM_LID, 0x0011, "NodeInfo" },
	{ SM_LID, 0x0012, "SwitchInfo" },
	{ SM_LID, 0x0014, "GUIDInfo" },
	{ SM_LID, 0x0015, "PortInfo" },
	{ SM_LID, 0x0016, "P_KeyTable" },
	{ SM_LID, 0x0017, "SLtoVLMappingTable" },
	{ SM_LID, 0x0018, "VLArbitrationTable" },
	{ SM_LID, 0x0019, "LinearForwardingTable" },
	{ SM_LID, 0x001a, "RandomForwardingTable" },
	{ SM_LID, 0x001b, "MulticastForwardingTable" },
	{ SM_LID, 0x001c, "LinkSpeedWidthPairsTable" },
	{ SM_LID, 0x001d, "VendorSpecificMadsTable" },
	{ SM_LID, 0x001e, "HierarchyInfo" },
	{ SM_LID, 0x0020, "SMInfo" },
	{ SM_LID, 0x0030, "VendorDiag" },
	{ SM_LID, 0x0031, "LedInfo" },
	{ SM_LID, 0x0032, "CableInfo" },
	{ SM_LID, 0x0033, "PortInfoExtended" },
	{ SA, 0x0011, "NodeRecord" },
	{ SA, 0x0012, "PortInfoRecord" },
	{ SA, 0x0013, "SLtoVLMappingTableRecord" },
	{ SA, 0x0014, "SwitchInfoRecord" },
	{ SA, 0x0015, "LinearForwardingTableRecord" },
	{ SA, 0x0016, "RandomForwardingTableRecord" },
	{ SA, 0x0017, "MulticastForwardingTableRecord" },
	{ SA, 0x0018, "SMInfoRecord" },
	{ SA, 0x0019, "LinkSpeedWidthPairsTableRecord" },
	{ SA, 0x00f3, "InformInfoRecord" },
	{ SA, 0x0020, "LinkRecord" },
	{ SA, 0x0030, "GuidInfoRecord" },
	{ SA, 0x0031, "ServiceRecord" },
	{ SA, 0x0033, "P_KeyTableRecord" },
	{ SA, 0x0035, "PathRecord" },
	{ SA, 0x0036, "VLArbitrationTableRecord" },
	{ SA, 0x0038, "MCMemberRecord" },
	{ SA, 0x0039, "TraceRecord" },
	{ SA, 0x003a, "MultiPathRecord" },
	{ SA, 0x003b, "ServiceAssociationRecord" },
	{ SA, 0x003c, "HierarchyInfoRecord" },
	{ SA, 0x003d, "CableInfoRecord" },
	{ SA, 0x003e, "PortInfoExtendedRecord" },
	{ CM, 0x0010, "ConnectRequest" },
	{ CM, 0x0011, "MsgRcptAck" },
	{ CM, 0x0012, "ConnectReject" },
	{ CM, 0x0013, "ConnectReply" },
	{ CM, 0x0014, "ReadyToUse" },
	{ CM, 0x0015, "DisconnectRequest" },
	{ CM, 0x0016, "DisconnectReply" },
	{ CM, 0x0017, "ServiceIDResReq" },
	{ CM, 0x0018, "ServiceIDResReqResp" },
	{ CM, 0x0019, "LoadAlternatePath" },
	{ CM, 0x001a, "AlternatePathResponse" },
	{ CM, 0x001b, "SuggestAlternatePath" },
	{ CM, 0x001c, "SuggestPathResponse" },
	{ ANY, 0x0001, "Class Port Info" },
	{ ANY, 0x0002, "Notice" },
	{ ANY, 0x0003, "Inform Info" },
};

static const char *const sa_statuses[] = {
	"Success",
	"No Resources",
	"Request Invalid",
	"No Records",
	"Too Many Records",
	"Invalid GID",
	"Insufficient Components",
	"Request Denied",
	"Priority Suggested",
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *find_name(const struct row *row, size_t n, uint8_t class,
			     uint16_t value, const char *none)
{
	if (class == SM_DR)
		class = SM_LID;
	for (size_t i = 0; i < n; i++) {
		if (row[i].value == value && (!row[i].class || row[i].class == class))
			return row[i].text;
	}
	return none;
}

EXPORT const char *umad_class_str(uint8_t mgmt_class)
{
	for (size_t i = 0; i < COUNT(classes); i++) {
		if (mgmt_class >= classes[i].from && mgmt_class <= classes[i].to)
			return classes[i].text;
	}
	return "<unknown>";
}

EXPORT const char *umad_method_str(uint8_t mgmt_class, uint8_t method)
{
	return find_name(methods, COUNT(methods), mgmt_class, method, "<unknown");
}

EXPORT const char *umad_attribute_str(uint8_t mgmt_class, __be16 attr_id)
{
	return find_name(attrs, COUNT(attrs), mgmt_class, __builtin_bswap16(attr_id),
			 "<unknown>");
}

/* IBTA 13.4.7. */
EXPORT const char *umad_common_mad_status_str(__be16 status)
{
	uint16_t s = __builtin_bswap16(status);

	if (s & 1)
		return "Busy";
	if (s & 2)
		return "Redirection required";
	switch (s & 0x1c) {
	case 0x04:
		return "Bad Version";
	case 0x08:
		return "Method not supported";
	case 0x0c:
		return "Method/Attribute combo not supported";
	case 0x1c:
		return "Invalid attribute/modifier field";
	default:
		return "Success";
	}
}

EXPORT const char *umad_sa_mad_status_str(__be16 status)
{
	uint8_t s = (uint8_t)(__builtin_bswap16(status) >> 8);

	return s < COUNT(sa_statuses) ? sa_statuses[s] : "Undefined Error";
}
